// Tensors over time: bands of their statistics, histograms, and the values of one tensor.

import { useMemo, useRef, useState } from "preact/hooks";
import { useSettled } from "../answers";
import { has, runPath, useAnswer, useOverview } from "../api";
import { count, counted } from "../format";
import { type Line, onAxis, type Range, wholeRange } from "../plot/lines";
import { Plot } from "../plot/Plot";
import { setParams } from "../router";
import "../styles/series.css";
import "../styles/tensor.css";
import { useColours } from "../theme";
import type { Mark, NameRow, RunId, TensorCurve } from "../types";
import { Button, Empty, Loading, Notice, Problem, Segmented } from "../ui";
import { NameList } from "./series/NameList";
import { AXES, axisOf } from "./series/options";
import { useWidth } from "./series/width";
import { HistogramPanel } from "./tensor/Histogram";
import { SlicePanel } from "./tensor/Slice";

export function Tensor({ run, params }: { run: RunId; params: URLSearchParams }) {
  const overview = useOverview();
  const names = useMemo(() => overview?.names.filter((each) => isShown(run, each)) ?? [], [overview]);
  const name = params.get("name") ?? names[0]?.name;
  if (name === undefined) {
    const hasTensors = overview?.names.some(({ kind }) => kind === "tensor");
    if (hasTensors) return <Empty title="The tensors are not in this report.">Open the run itself, or make a larger one.</Empty>;
    return (
      <Empty title="No tensors were recorded in this run.">Arrays and tensors that are watched appear here.</Empty>
    );
  }
  const choose = (next: string) => setParams({ name: next, index: null, at: null });
  return (
    <div class="split">
      <NameList run={run} kinds={["tensor"]} names={names} chosen={[name]} onOnly={choose} />
      <OneTensor key={name} run={run} name={name} params={params} />
    </div>
  );
}

function isShown(run: RunId, { kind, name }: NameRow): boolean {
  return kind === "tensor" && has(runPath(run, "tensors"), { name, axis: "step" });
}

function OneTensor({ run, name, params }: { run: RunId; name: string; params: URLSearchParams }) {
  const box = useRef<HTMLDivElement>(null);
  const px = useWidth(box);
  const colour = useColours();
  const axis = axisOf(params.get("axis"));
  const [range, setRange] = useState<Range | null>(null);
  const settled = useSettled(range, 120);
  const ask = { name, axis, from: settled?.[0], to: settled?.[1], px };
  const { data, error, reload } = useAnswer<TensorCurve>(runPath(run, "tensors"), ask, { live: true });
  const line = useMemo(() => (data ? bandsOf(data, colour("--c0")) : null), [data, colour("--c0")]);
  const whole = data ? wholeRange([data.range]) : null;
  const keptColumns = data ? keptOf(data, run) : [];
  const index = indexOf(params.get("index"), data, keptColumns);
  const at = data ? data.index.indexOf(index ?? -1) : -1;
  const open = (next: number) => setParams({ index: next });
  return (
    <section class="tensor" ref={box} aria-label={name}>
      <div class="bar series-bar">
        <h2 class="mono clip tensor-name">{name}</h2>
        {data?.shapes.slice(0, 3).map((shape) => (
          <span key={shape} class="chip mono">
            {shape}
          </span>
        ))}
        {data && data.shapes.length > 3 && <span class="muted">and {data.shapes.length - 3} other shapes</span>}
        <span class="bar-space" />
        <Segmented
          label="By"
          value={axis}
          options={AXES.map((each) => ({
            ...each,
            disabled: !has(runPath(run, "tensors"), { name, axis: each.value }),
          }))}
          onChange={(value) => {
            setRange(null);
            setParams({ axis: value === "step" ? null : value });
          }}
        />
        <Button small disabled={!range} onClick={() => setRange(null)} hint="See all of it (double-click)">
          Whole
        </Button>
      </div>
      {error && !data && <Problem error={error} retry={reload} />}
      {error && data && (
        <Notice kind="bad">
          {error.error} {error.remedy}
        </Notice>
      )}
      {!data && !error && <Loading what="Reading the tensors" />}
      {data && (!whole || !line) && <Empty title="No tensor was recorded under this name yet." />}
      {data && whole && line && (
        <>
          <section class="tensor-part">
            <header class="tensor-head">
              <h3>Statistics</h3>
              <span class="tensor-key">
                <i class="key-line" /> mean <i class="key-std" /> ± std <i class="key-all" /> min … max
              </span>
              <span class="faint">{statsNote(data)}</span>
            </header>
            {data.mean.every((mean) => mean === null) && (
              <p class="plot-note">Nothing to draw: no real, finite number in {counted(data.total, "tensor")}.</p>
            )}
            <Plot
              lines={[line]}
              axis={data.axis}
              whole={whole}
              range={range}
              onRange={setRange}
              onPick={(_, x) => open(data.index[nearestTo(data.x, x)])}
              height={240}
              scrolls
              picked={at < 0 ? null : data.x[at]}
              label={`Mean, standard deviation, minimum and maximum of ${name}`}
            />
          </section>
          <HistogramPanel run={run} name={name} axis={axis} index={index} onOpen={open} />
          {index !== null && (
            <SlicePanel
              run={run}
              name={name}
              index={index}
              total={data.total}
              where={at < 0 ? null : `${data.axis} ${onAxis(data.axis, data.x[at])}`}
              kept={keptColumns.length ? keptColumns[nearestTo(keptColumns, index)] : null}
              at={params.get("at")}
              onOpen={open}
            />
          )}
        </>
      )}
    </section>
  );
}

/** The tensors whose values are available: they were kept and, in a report, included. */
function keptOf(data: TensorCurve, run: RunId): number[] {
  const path = runPath(run, "slice");
  return data.index.filter((index, i) => data.full[i] && has(path, { name: data.name, index }));
}

/** The requested tensor; else the last whose values were kept; else the last. */
function indexOf(text: string | null, data: TensorCurve | null, kept: number[]): number | null {
  if (text !== null && /^\d+$/.test(text)) return Number(text);
  return kept.at(-1) ?? data?.index.at(-1) ?? null;
}

function nearestTo(x: number[], value: number): number {
  return x.reduce((best, each, i) => (Math.abs(each - value) < Math.abs(x[best] - value) ? i : best), 0);
}

/** The mean as a line, inside bands of one standard deviation and of the whole range. */
export function bandsOf(data: TensorCurve, colour: string): Line {
  const around = (sign: number) =>
    data.mean.map((mean, i) => (mean === null || data.std[i] === null ? null : mean + sign * data.std[i]));
  const marks = data.x.flatMap((x, i): Mark[] => {
    const counts = [data.nan[i] && `${count(data.nan[i])} NaN`, data.inf[i] && `${count(data.inf[i])} Inf`].filter(
      Boolean,
    );
    return counts.length ? [{ x, what: "nan", text: counts.join(", ") }] : [];
  });
  return {
    id: data.name,
    label: "mean",
    colour,
    x: data.x,
    y: data.mean,
    bands: [
      { low: data.min, high: data.max, strength: 0.13 },
      { low: around(-1), high: around(1), strength: 0.25 },
    ],
    marks,
  };
}

function statsNote(data: TensorCurve): string {
  const bad = data.x.filter((_, i) => data.nan[i] + data.inf[i] > 0).length;
  return [
    data.inside < data.total
      ? `${count(data.inside)} of ${counted(data.total, "tensor")}`
      : counted(data.total, "tensor"),
    data.reduced && `one in ${count(data.every)} drawn`,
    bad > 0 && `${count(bad)} with NaN or Inf`,
  ]
    .filter(Boolean)
    .join(" · ");
}
