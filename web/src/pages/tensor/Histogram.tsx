import { useMemo } from "preact/hooks";
import { runPath, useAnswer } from "../../api";
import { count, number } from "../../format";
import type { Scale } from "../../plot/colours";
import { HeatMap } from "../../plot/HeatMap";
import { onAxis } from "../../plot/lines";
import type { Axis, Histogram, RunId } from "../../types";
import { Empty, Loading, Problem } from "../../ui";

interface HistogramProps {
  run: RunId;
  name: string;
  axis: Axis;
  index: number | null;
  onOpen: (index: number) => void;
}

const COLUMNS = 160;
const BINS = 48;

/** The distribution of values: one column per tensor, where lighter cells hold more values. */
export function HistogramPanel({ run, name, axis, index, onOpen }: HistogramProps) {
  const ask = { name, axis, columns: COLUMNS, bins: BINS };
  const { data, error, reload } = useAnswer<Histogram>(runPath(run, "histogram"), ask, { live: true });
  return (
    <section class="tensor-part">
      <header class="tensor-head">
        <h3>Histogram</h3>
        <span class="faint">{data?.note}</span>
      </header>
      <div class="histogram">
        {data ? (
          <Drawn data={data} axis={axis} index={index} onOpen={onOpen} />
        ) : error ? (
          <Problem error={error} retry={reload} />
        ) : (
          <Loading what="Counting" />
        )}
      </div>
    </section>
  );
}

function Drawn({ data, axis, index, onOpen }: Omit<HistogramProps, "run" | "name"> & { data: Histogram }) {
  const bins = Math.max(0, data.edges.length - 1);
  const cells = useMemo(() => columnsToRows(data.counts, bins), [data]);
  if (data.x.length === 0 || bins === 0) return <Empty title="There are no values to count." />;
  const most = cells.reduce((found, value) => Math.max(found, value), 0);
  if (most === 0) return <Empty title="There are no finite values to count." />;
  const scale: Scale = { name: "plain", low: 0, high: most };
  const tip = (row: number, col: number) => {
    const bin = bins - 1 - row;
    return (
      <>
        <div class="tip-head">
          {axis} {onAxis(axis, data.x[col])}
        </div>
        <div class="mono">
          {number(data.edges[bin], 4)} … {number(data.edges[bin + 1], 4)}
        </div>
        <b class="mono">{count(data.counts[col][bin])}</b> values
      </>
    );
  };
  return (
    <>
      <div class="histogram-y mono" aria-hidden="true">
        <span>{short(data.edges[bins])}</span>
        <span>{short((data.edges[0] + data.edges[bins]) / 2)}</span>
        <span>{short(data.edges[0])}</span>
      </div>
      <HeatMap
        fill
        rows={bins}
        cols={data.x.length}
        data={cells}
        scale={scale}
        tip={tip}
        marked={index === null ? null : data.index.indexOf(index)}
        onPick={(_, col) => onOpen(data.index[col])}
        label={`Histogram of ${data.x.length} tensors, values from ${number(data.edges[0])} to ${number(data.edges[bins])}`}
      />
      <div class="histogram-x mono" aria-hidden="true">
        <span>{onAxis(axis, data.x[0])}</span>
        <span>{axis}</span>
        <span>{onAxis(axis, data.x[data.x.length - 1])}</span>
      </div>
    </>
  );
}

const ROOM = 6; // characters beside the drawing

function short(value: number): string {
  const text = number(value, 3);
  return text.length <= ROOM ? text : number(value, 1);
}

/** Flips the bins, because canvases count downwards; draws logarithms, so that few values differ from none. */
export function columnsToRows(counts: number[][], bins: number): number[] {
  const cells: number[] = [];
  for (let bin = bins - 1; bin >= 0; bin--) {
    for (const column of counts) cells.push(Math.log1p(column[bin]));
  }
  return cells;
}
