// One difference in detail: its place, calls and inputs, both values, and their distance.

import type { Difference, DiffSide } from "../../difftypes";
import { place } from "../../format";
import { joinNames, link } from "../../router";
import type { RunId } from "../../types";
import { classes, Icon, withCode } from "../../ui";
import { measureRows, num, ROLES, stepText } from "./messages";
import { sentence } from "../sentence";

interface DifferenceViewProps {
  one: Difference;
  a: RunId;
  b: RunId;
}

export function DifferenceView({ one, a, b }: DifferenceViewProps) {
  return (
    <div class="diff-one">
      <div class="diff-where">
        <span class="mono diff-name">{one.name}</span>
        <span class="chip">{one.what}</span>
        {one.step !== null && <span class="chip">step {stepText(one.step)}</span>}
        <span class={classes("chip", `role-${one.role}`)}>{ROLES[one.role]}</span>
      </div>
      <p class="muted">{withCode(sentence(one.reason))}</p>
      <div class="diff-sides">
        <Side sign="A" side={one.a} run={a} held={one.held === "a"} />
        <Side sign="B" side={one.b} run={b} held={one.held === "b"} />
      </div>
      <Measures one={one} />
      {one.inputs.length > 0 && <Inputs inputs={one.inputs} />}
      {one.what === "change" && isNumber(one.a.value) && isNumber(one.b.value) && (
        <a class="diff-series" href={link.run(a, "series", { names: joinNames([one.name]), runs: joinNames([b]) })}>
          Both curves of <span class="mono">{one.name}</span>
        </a>
      )}
    </div>
  );
}

/** Whether the value has a curve. */
function isNumber(text: string): boolean {
  return text.trim() !== "" && (!Number.isNaN(Number(text)) || /^[+-]?(nan|inf(inity)?)$/i.test(text));
}

function Side({ sign, side, run, held }: { sign: string; side: DiffSide; run: RunId; held: boolean }) {
  const { call } = side;
  return (
    <section class="diff-side">
      <h3>{sign}</h3>
      <pre class="value-block">{side.value}</pre>
      {held && <p class="muted">No change here: it held this from before.</p>}
      <p class="diff-place">
        {side.file && (
          <span class="muted clip" title={`${side.file}:${side.line}`}>
            {place(side)}
          </span>
        )}
        {call && (
          <a href={link.call(run, `${call.shard}:${call.id}`)} title={[...call.path, call.function].join(" › ")}>
            {call.function}
          </a>
        )}
        {call && call.rank !== 0 && <span class="chip">rank {call.rank}</span>}
      </p>
    </section>
  );
}

function Measures({ one }: { one: Difference }) {
  const rows = measureRows(one.measure);
  return (
    <dl class="diff-measures">
      {one.multiple !== null && (
        <div class="diff-multiple">
          <dt>of its own noise</dt>
          <dd>
            {num(one.multiple)} times <span class="muted">({num(one.noise)})</span>
          </dd>
        </div>
      )}
      {rows.map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}

function Inputs({ inputs }: { inputs: Difference["inputs"] }) {
  return (
    <div class="diff-inputs">
      <h3>Inputs of its call</h3>
      <ul>
        {inputs.map((input, index) => (
          <li key={index} class={classes(input.equal === false && "differs")}>
            <Icon name={input.equal ? "check" : input.equal === null ? "help" : "close"} size={12} />
            <span class="mono diff-name">{input.name}</span>
            <span class="mono clip" title={input.a}>
              {input.a}
            </span>
            {input.equal === false && (
              <span class="mono clip" title={input.b}>
                {input.b}
              </span>
            )}
            <span class="hidden">{input.equal ? "equal" : input.equal === null ? "not known" : "differs"}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
