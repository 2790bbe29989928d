// The data of a plot and the computations it needs, without drawing.

import { duration, number } from "../format";
import type { Axis, Mark } from "../types";
import { lowerBound } from "./reduce";

export type Numbers = (number | null)[];
export type Range = [number, number];

export interface Band {
  low: Numbers;
  high: Numbers;
  strength: number; // 0 … 1, the opacity
}

export interface Line {
  id: string;
  label: string;
  colour: string;
  x: number[];
  y: Numbers;
  faint?: Numbers; // the unsmoothed values behind a smoothed line
  bands: Band[];
  marks: Mark[];
}

/** The range of x to show: the zoomed one, or all. A single point gets room on both sides. */
export function wholeRange(ranges: (Range | null)[]): Range | null {
  const known = ranges.filter((range) => range !== null);
  if (known.length === 0) return null;
  const low = Math.min(...known.map((range) => range[0]));
  const high = Math.max(...known.map((range) => range[1]));
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

/** The minimum and maximum drawn between two x, with a margin; on a log axis only positive values count. */
export function valueRange(lines: Line[], [from, to]: Range, log: boolean): Range {
  let least = Infinity;
  let most = -Infinity;
  const see = (values: Numbers, first: number, last: number) => {
    for (let i = first; i < last; i++) {
      const value = values[i];
      if (value === null || value === undefined || (log && value <= 0)) continue;
      if (value < least) least = value;
      if (value > most) most = value;
    }
  };
  for (const line of lines) {
    const first = Math.max(0, lowerBound(line.x, from));
    const last = Math.min(line.x.length, lowerBound(line.x, to) + 1);
    for (const values of [line.y, line.faint, ...line.bands.flatMap((band) => [band.low, band.high])]) {
      if (values) see(values, first, last);
    }
  }
  if (least > most) return log ? [0.1, 10] : [0, 1];
  if (log) return least === most ? [least / 2, most * 2] : [least / 1.15, most * 1.15];
  const air = least === most ? Math.abs(least) * 0.1 || 0.5 : (most - least) * 0.05;
  return [least - air, most + air];
}

/** The point of a line nearest to x; null if no point has a value. */
export function nearest(line: Line, x: number): number | null {
  const at = lowerBound(line.x, x);
  let best: number | null = null;
  for (let reach = 0; reach < 50 && best === null; reach++) {
    const near = [at - 1 - reach, at + reach].filter((i) => i >= 0 && i < line.x.length && line.y[i] !== null);
    for (const i of near) {
      if (best === null || Math.abs(line.x[i] - x) < Math.abs(line.x[best] - x)) best = i;
    }
  }
  return best;
}

/** Move and scale a range: `zoom` < 1 magnifies around `at`; the result stays inside `whole`. */
export function moved(range: Range, whole: Range, change: { zoom?: number; at?: number; by?: number }): Range | null {
  const span = range[1] - range[0];
  const all = whole[1] - whole[0];
  const { zoom = 1, at = (range[0] + range[1]) / 2, by = 0 } = change;
  const next = Math.max(span * zoom, all * 1e-9);
  if (next >= all) return null;
  let low = at - ((at - range[0]) / span) * next + by;
  low = Math.max(whole[0], Math.min(whole[1] - next, low));
  return [low, low + next];
}

/** On a log axis, values that are not positive cannot be drawn. */
export function above0(values: Numbers): Numbers {
  return values.map((value) => (value !== null && value > 0 ? value : null));
}

export function withoutZero(line: Line): Line {
  const bands = line.bands.map((band) => ({ ...band, low: above0(band.low), high: above0(band.high) }));
  return { ...line, y: above0(line.y), faint: line.faint && above0(line.faint), bands };
}

type Column = (number | null | undefined)[];

/**
 * One table of several, by their first columns, which ascend: the plot wants a common x. An x that comes several times
 * in one of them, as steps do, stays so. Where a table has nothing, undefined: the line goes on over it.
 */
export function joined(tables: Column[][]): Column[] {
  if (tables.length === 1) return tables[0];
  const at = tables.map(() => 0);
  const out: Column[] = [[], ...tables.flatMap((table) => table.slice(1).map((): Column => []))];
  for (;;) {
    const x = Math.min(...tables.map((table, t) => table[0][at[t]] ?? Infinity));
    if (x === Infinity) return out;
    let column = 1;
    out[0].push(x);
    tables.forEach((table, t) => {
      const here = table[0][at[t]] === x;
      for (const values of table.slice(1)) out[column++].push(here ? values[at[t]] : undefined);
      if (here) at[t] += 1;
    });
  }
}

export function markText(mark: Mark): string {
  const label = { nan: "NaN", inf: "Inf", "-inf": "-Inf", deleted: "deleted", other: "not a number" }[mark.what];
  return mark.text ? `${label}: ${mark.text}` : label;
}

export function onAxis(axis: Axis, x: number): string {
  return axis === "time" ? duration(x) : number(x, 7);
}
