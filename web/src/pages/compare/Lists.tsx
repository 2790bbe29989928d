// The differences page by page, and the values that could not be compared.

import { useState } from "preact/hooks";
import type { Diff, Difference, Missing } from "../../difftypes";
import { count, counted, place } from "../../format";
import { setParams } from "../../router";
import type { RunId } from "../../types";
import { Button, classes, Empty, Icon } from "../../ui";
import { DifferenceView } from "./DifferenceView";
import { num, ROLES, stepText } from "./messages";

export const PAGE = 50;

type Which = "differences" | "a" | "b" | "not";

export function Lists({ diff, a, b }: { diff: Diff; a: RunId; b: RunId }) {
  const [which, setWhich] = useState<Which>("differences");
  const { summary } = diff;
  const tabs: [Which, string, number][] = [
    ["differences", "Differences", diff.differences.total],
    ["a", "Only in A", summary.only_in_a.calls + summary.only_in_a.values],
    ["b", "Only in B", summary.only_in_b.calls + summary.only_in_b.values],
    ["not", "Not compared", summary.not_compared],
  ];
  return (
    <section class="panel diff-lists">
      <div class="diff-tabs" role="tablist" aria-label="Lists">
        {tabs.map(([key, text, number]) => (
          <button
            key={key}
            type="button"
            role="tab"
            aria-selected={which === key}
            class={classes(which === key && "on")}
            onClick={() => setWhich(key)}
          >
            {text} <span class="chip">{count(number)}</span>
          </button>
        ))}
      </div>
      <div role="tabpanel">
        {which === "differences" && <Differences diff={diff} a={a} b={b} />}
        {which === "a" && <OnlyIn name="A" rows={diff.only_in_a} />}
        {which === "b" && <OnlyIn name="B" rows={diff.only_in_b} />}
        {which === "not" && <NotCompared diff={diff} />}
      </div>
    </section>
  );
}

function Differences({ diff, a, b }: { diff: Diff; a: RunId; b: RunId }) {
  const [open, setOpen] = useState<number | null>(null);
  const { items, total, offset } = diff.differences;
  if (total === 0) return <Empty title="No value differs." />;
  const noise = diff.settings.noise !== null;
  return (
    <>
      <div class="diff-scroll">
        <table class="table diff-table">
          <thead>
            <tr>
              <th />
              <th>Name</th>
              <th>In</th>
              <th class="num">Step</th>
              <th>A</th>
              <th>B</th>
              <th class="num">Largest</th>
              {noise && <th class="num">× noise</th>}
              <th>Role</th>
            </tr>
          </thead>
          <tbody>
            {items.map((one) => (
              <DifferenceRow
                key={one.index}
                one={one}
                noise={noise}
                open={open === one.index}
                onOpen={() => setOpen(open === one.index ? null : one.index)}
                a={a}
                b={b}
              />
            ))}
          </tbody>
        </table>
      </div>
      {total > items.length && (
        <div class="diff-pager">
          <Button
            small
            icon="back"
            label="Differences before"
            disabled={offset === 0}
            onClick={() => setParams({ offset: Math.max(0, offset - PAGE) || null })}
          />
          <span class="muted">
            {count(offset + 1)} – {count(offset + items.length)} of {count(total)}
          </span>
          <Button
            small
            icon="right"
            label="Next differences"
            disabled={offset + items.length >= total}
            onClick={() => setParams({ offset: offset + items.length })}
          />
        </div>
      )}
    </>
  );
}

interface RowProps {
  one: Difference;
  noise: boolean;
  open: boolean;
  onOpen: () => void;
  a: RunId;
  b: RunId;
}

function DifferenceRow({ one, noise, open, onOpen, a, b }: RowProps) {
  return (
    <>
      <tr onClick={onOpen} class="diff-row">
        <td>
          <button
            type="button"
            class={classes("tree-arrow", open && "open")}
            aria-expanded={open}
            aria-label={`All about ${one.name}`}
          >
            <Icon name="right" size={12} />
          </button>
        </td>
        <td class="mono diff-name">{one.name}</td>
        <td class="mono muted">{one.function}</td>
        <td class="num">{one.step === null ? "" : stepText(one.step)}</td>
        <td class="mono diff-cell" title={one.a.value}>
          {one.a.value}
        </td>
        <td class="mono diff-cell" title={one.b.value}>
          {one.b.value}
        </td>
        <td class="num mono">{one.measure.max_abs === undefined ? "" : num(one.measure.max_abs, 3)}</td>
        {noise && <td class="num mono">{one.multiple === null ? "" : num(one.multiple, 3)}</td>}
        <td>
          <span class={classes("chip", `role-${one.role}`)}>{ROLES[one.role]}</span>
        </td>
      </tr>
      {open && (
        <tr class="diff-open">
          <td colSpan={noise ? 9 : 8}>
            <DifferenceView one={one} a={a} b={b} />
          </td>
        </tr>
      )}
    </>
  );
}

const SHOWN = 200;

function OnlyIn({ name, rows }: { name: string; rows: Missing[] }) {
  const [all, setAll] = useState(false);
  if (rows.length === 0) return <Empty title={`Nothing is only in ${name}.`} />;
  const shown = all ? rows : rows.slice(0, SHOWN);
  return (
    <div class="diff-scroll">
      <table class="table">
        <thead>
          <tr>
            <th>What</th>
            <th>Name</th>
            <th>In</th>
            <th class="num">Calls</th>
            <th class="num">Values</th>
            <th>First at</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((row, index) => (
            <tr key={index}>
              <td>{row.what}</td>
              <td class="mono diff-name">{row.name}</td>
              <td class="mono muted">{row.function}</td>
              <td class="num">{row.calls ? count(row.calls) : ""}</td>
              <td class="num">{row.values ? count(row.values) : ""}</td>
              <td class="muted">
                {row.step !== null && `step ${stepText(row.step)} · `}
                {row.file && place(row)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown.length && (
        <Button small kind="quiet" onClick={() => setAll(true)}>
          All {counted(rows.length, "place")}
        </Button>
      )}
    </div>
  );
}

function NotCompared({ diff }: { diff: Diff }) {
  const rows = diff.not_compared;
  if (rows.length === 0) return <Empty title="All that both runs have was compared." />;
  return (
    <div class="diff-scroll">
      <table class="table">
        <thead>
          <tr>
            <th>Name</th>
            <th>In</th>
            <th class="num">Values</th>
            <th>Why</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, SHOWN).map((row, index) => (
            <tr key={index}>
              <td class="mono diff-name">{row.name}</td>
              <td class="mono muted">{row.function}</td>
              <td class="num">{count(row.count)}</td>
              <td>{row.why}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > SHOWN && <p class="muted diff-pager">and {count(rows.length - SHOWN)} places more</p>}
    </div>
  );
}
