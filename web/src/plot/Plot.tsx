// Curves on a canvas: uPlot draws axes and lines; this adds bands, marks, zooming, panning and picking.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { useColours } from "../theme";
import type { Axis } from "../types";
import { drawBands, drawMarks } from "./draw";
import { type Handled, type Hover, hoverAt, keys, listen, select } from "./interactions";
import { joined, type Line, valueRange, withoutZero } from "./lines";
import { seriesOf, size, xAxis, yAxis } from "./options";
import { Tip } from "./Tip";

interface PlotProps extends Handled {
  lines: Line[];
  axis: Axis;
  log?: boolean;
  height?: number; // px; by default the available height
  title?: string;
  label: string; // for screen readers
  picked?: number | null; // x of the point shown beside the plot
  sync?: string; // plots with the same key share their cursor
}

export function Plot(props: PlotProps) {
  const { lines, log = false, axis } = props;
  const colour = useColours();
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const shown = useRef<Line[]>(lines);
  shown.current = log ? lines.map(withoutZero) : lines;
  const [hover, setHover] = useState<Hover | null>(null);
  const text = colour("--muted");
  const grid = colour("--line");
  const steps =
    axis !== "time" && lines.every(({ x }) => Number.isInteger(x[0] ?? 0) && Number.isInteger(x.at(-1) ?? 0));
  // uPlot is recreated only for what it cannot change: the number and style of lines, and the axes.
  const looks = JSON.stringify([lines.map((line) => [line.colour, !!line.faint]), log, axis, steps, text, grid]);

  useLayoutEffect(() => {
    const box = holder.current!;
    const made = new uPlot(
      {
        ...size(box),
        legend: { show: false },
        padding: [8, 12, 0, 0],
        scales: {
          x: { time: false, auto: false },
          y: {
            distr: log ? 3 : 1,
            range: () => valueRange(shown.current, latest.current.range ?? latest.current.whole, log),
          },
        },
        axes: [xAxis(axis, steps, text, grid), yAxis(log, text, grid)],
        series: [{}, ...lines.flatMap(seriesOf)],
        cursor: {
          drag: { x: true, y: false, setScale: false },
          sync: props.sync ? { key: props.sync, scales: ["x", null] } : undefined,
          points: { size: 7, width: 1.5 },
          bind: { dblclick: () => () => (latest.current.onRange(null), null) },
        },
        hooks: {
          drawClear: [(u) => drawBands(u, shown.current)],
          draw: [(u) => drawMarks(u, shown.current, latest.current.picked ?? null, colour)],
          setCursor: [(u) => setHover(hoverAt(u, shown.current))],
          setSelect: [(u) => select(u, latest.current.onRange)],
        },
      },
      tableOf(shown.current),
      box,
    );
    plot.current = made;
    const range = latest.current.range ?? latest.current.whole;
    made.setScale("x", { min: range[0], max: range[1] });
    const undo = listen(made, latest, shown);
    const watch = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(() => made.setSize(size(box)));
    watch?.observe(box);
    return () => {
      undo();
      watch?.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [looks]);

  useLayoutEffect(() => {
    const made = plot.current;
    const range = props.range ?? props.whole;
    if (!made) return;
    made.batch(() => {
      made.setData(tableOf(shown.current), false);
      made.setScale("x", { min: range[0], max: range[1] });
    });
  }, [lines, props.range?.[0], props.range?.[1], props.whole[0], props.whole[1], log]);
  useEffect(() => plot.current?.redraw(false), [props.picked]);

  return (
    <figure
      class="plot"
      style={props.height ? { height: `${props.height}px` } : undefined}
      tabIndex={0}
      role="img"
      aria-label={props.label}
      onKeyDown={(event) => keys(event, latest.current, plot.current, shown.current)}
      onMouseLeave={() => setHover(null)}
    >
      {props.title && <figcaption class="plot-title">{props.title}</figcaption>}
      <div class="plot-canvas" ref={holder} />
      {hover && <Tip hover={hover} axis={axis} width={holder.current?.clientWidth ?? 0} />}
    </figure>
  );
}

function tableOf(lines: Line[]): uPlot.AlignedData {
  const tables = lines.map((line) => [line.x, ...(line.faint ? [line.faint] : []), line.y]);
  return (tables.length ? joined(tables) : [[]]) as uPlot.AlignedData;
}
