// Curves of numbers: several names and several runs together.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useSettled } from "../answers";
import { has, runPath, useOverview } from "../api";
import { counted } from "../format";
import { type Line, type Range, valueRange, wholeRange } from "../plot/lines";
import { Plot } from "../plot/Plot";
import { joinNames, link, setParams, splitNames } from "../router";
import "../styles/series.css";
import type { Curve, NameRow, RunId } from "../types";
import { Empty, Loading, Notice, Problem, withCode } from "../ui";
import { Controls, Legend } from "./series/Controls";
import { type Shown, useCurves } from "./series/curves";
import { footText } from "./series/foot";
import { NameList } from "./series/NameList";
import { type Options, optionsOf, rangeOf } from "./series/options";
import { PointPanel } from "./series/PointPanel";
import { RunPicker } from "./series/RunPicker";
import { useWidth } from "./series/width";

export function Series({ run, params }: { run: RunId; params: URLSearchParams }) {
  const overview = useOverview();
  const names = useMemo(() => listed(run, overview?.names ?? []), [overview]);
  const asked = params.get("names");
  const chosen = asked === null ? firstChoice(names) : splitNames(asked);
  const others = splitNames(params.get("runs") ?? "").filter((id) => id !== run);
  const toggle = (name: string) => {
    const next = chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name];
    setParams({ names: joinNames(next) || "," }); // "," means none: an empty parameter would restore the default selection
  };
  if (names.length === 0) {
    const tensors = overview?.names.filter(({ kind }) => kind === "tensor").length ?? 0;
    if (overview?.names.some(({ kind }) => KINDS.includes(kind))) {
      return <Empty title="The series are not in this report.">Open the run itself, or make a larger one.</Empty>;
    }
    return (
      <Empty title="No numbers were recorded in this run.">
        {tensors > 0 ? (
          <>
            But {counted(tensors, "series of tensors", "series of tensors")}: see{" "}
            <a href={link.run(run, "tensor")}>Tensors</a>. Numbers are watched by <code>@clew.watch("loss")</code>.
          </>
        ) : (
          <>
            Watch some: <code>@clew.watch("loss")</code>, or see the <a href={link.run(run, "tree")}>tree</a> of calls.
          </>
        )}
      </Empty>
    );
  }
  return (
    <div class="split">
      <NameList
        run={run}
        kinds={KINDS}
        names={names}
        chosen={chosen}
        onToggle={toggle}
        onOnly={(name) => setParams({ names: joinNames([name]) })}
      />
      <Curves runs={[run, ...others]} names={chosen} params={params} onRemove={toggle} />
    </div>
  );
}

const KINDS: NameRow["kind"][] = ["number", "value"]; // a "value" may hold numbers later on

/** Numbers first; in a report, only the names it contains. */
function listed(run: RunId, names: NameRow[]): NameRow[] {
  const available = names.filter(({ name }) => has(runPath(run, "series"), { name, axis: "step" }));
  return KINDS.flatMap((kind) => available.filter((each) => each.kind === kind));
}

/** The default selection: the names that are most often of interest, if present. */
function firstChoice(rows: NameRow[]): string[] {
  const names = rows.filter((row) => row.kind === "number").map((row) => row.name);
  const loss = names.find((name) => /(^|\W)loss$/i.test(name)) ?? names.find((name) => /loss|acc/i.test(name));
  const first = loss ?? names[0] ?? rows[0]?.name;
  return first === undefined ? [] : [first];
}

interface Picked {
  run: RunId;
  name: string;
  x: number;
}

interface CurvesProps {
  runs: RunId[]; // the page's own run comes first
  names: string[];
  params: URLSearchParams;
  onRemove: (name: string) => void;
}

function Curves({ runs, names, params, onRemove }: CurvesProps) {
  const [run, ...others] = runs;
  const box = useRef<HTMLDivElement>(null);
  const px = useWidth(box);
  const options = optionsOf(params);
  const [range, setRange] = useState<Range | null>(() => rangeOf(params));
  const [picked, setPicked] = useState<Picked | null>(null);
  const [picking, setPicking] = useState(false);
  const settled = useSettled(range, 120);
  useEffect(() => setParams({ from: settled?.[0], to: settled?.[1] }), [settled]);
  const shown = useCurves({ runs, names, ...options, range: settled, px });
  const curves = shown.flatMap(({ curve }) => curve ?? []);
  const whole = wholeRange(curves.map((curve) => curve.range));
  const axis = curves.find((curve) => curve.axis !== options.axis)?.axis ?? options.axis;
  const forget = () => {
    setRange(null);
    setPicked(null);
  };
  const pick = (line: Line, x: number) => {
    const curve = shown.find((each) => each.id === line.id);
    if (curve) setPicked({ run: curve.run, name: curve.name, x });
  };
  return (
    <section class="curves" aria-label="Curves">
      <Controls
        run={run}
        runs={runs.length}
        names={names}
        options={options}
        zoomed={range !== null}
        onAxis={forget}
        onWhole={() => setRange(null)}
        onRuns={() => setPicking(true)}
      />
      <Legend shown={shown} run={run} onRemove={onRemove} />
      {curves.length > 0 && <Errors shown={shown} />}
      <div class="plots" ref={box}>
        {whole ? (
          <Plots
            shown={shown}
            names={names}
            options={{ ...options, axis }}
            whole={whole}
            range={range}
            onRange={setRange}
            onPick={pick}
            picked={picked?.x ?? null}
          />
        ) : (
          <NoCurve shown={shown} />
        )}
        {whole && !range && <NoNumbers curves={curves} />}
      </div>
      <footer class="series-foot">{footText(curves, options.axis, axis, options.log)}</footer>
      {picked && (
        <PointPanel
          {...picked}
          axis={axis}
          side={isRight(picked.x, range ?? whole) ? "left" : "right"}
          onClose={() => setPicked(null)}
        />
      )}
      {picking && (
        <RunPicker
          current={run}
          chosen={others}
          onClose={() => setPicking(false)}
          onChange={(ids) => setParams({ runs: joinNames(ids) })}
        />
      )}
    </section>
  );
}

interface PlotsProps {
  shown: Shown[];
  names: string[];
  options: Options;
  whole: Range;
  range: Range | null;
  onRange: (range: Range | null) => void;
  onPick: (line: Line, x: number) => void;
  picked: number | null;
}

/** All curves in one plot, or one plot per name. */
function Plots({ shown, names, options, ...rest }: PlotsProps): ComponentChildren {
  const lines = useMemo(() => shown.flatMap(({ line }) => line ?? []), [shown]);
  const common = { ...rest, axis: options.axis, log: options.log, sync: "series" };
  if (!options.split || names.length < 2) return <Plot {...common} lines={lines} label={describe(lines, rest.whole)} />;
  return names.map((name) => {
    const some = shown.flatMap((each) => (each.name === name && each.line ? [each.line] : []));
    return <Plot {...common} key={name} title={name} scrolls lines={some} label={describe(some, rest.whole)} />;
  });
}

function Errors({ shown }: { shown: Shown[] }) {
  return shown.flatMap(({ id, name, runName, error }) =>
    error ? (
      <Notice key={id} kind="bad">
        {runName === null ? name : `${name} · ${runName}`}: {withCode(`${error.error} ${error.remedy}`)}
      </Notice>
    ) : (
      []
    ),
  );
}

function NoCurve({ shown }: { shown: Shown[] }) {
  const error = shown.find((each) => each.error)?.error;
  if (shown.length === 0) return <Empty title="Nothing is chosen.">Tick one or more names in the list.</Empty>;
  if (shown.some((each) => each.curve)) return <Empty title="This series has no points yet." />;
  return error ? <Problem error={error} /> : <Loading what="Reading the series" />;
}

function NoNumbers({ curves }: { curves: Curve[] }) {
  if (curves.some((curve) => curve.y.some((y) => y !== null))) return null;
  const total = curves.reduce((sum, curve) => sum + curve.total, 0);
  return <p class="plot-note">No finite number among {counted(total, "value")}.</p>;
}

function isRight(x: number, range: Range | null): boolean {
  return range !== null && x > (range[0] + range[1]) / 2;
}

function describe(lines: Line[], whole: Range): string {
  const [low, high] = valueRange(lines, whole, false).map((value) => value.toPrecision(4));
  return `Plot of ${lines.map((line) => line.label).join(", ")}, between ${low} and ${high}`;
}
