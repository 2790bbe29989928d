// How uPlot is told what axes and lines look like.

import type uPlot from "uplot";
import { number } from "../format";
import type { Axis } from "../types";
import { type Line, onAxis } from "./lines";

export function size(box: HTMLElement): { width: number; height: number } {
  return { width: Math.max(80, box.clientWidth), height: Math.max(80, box.clientHeight) };
}

const NARROWEST = 44; // px; the histogram below a plot begins there too
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

function look(text: string, grid: string): uPlot.Axis {
  return {
    stroke: text,
    font: FONT,
    grid: { stroke: grid, width: 1 },
    ticks: { stroke: grid, width: 1, size: 4 },
    border: { show: true, stroke: grid, width: 1 },
    gap: 4,
  };
}

const WHOLE = Array.from({ length: 15 }, (_, i) => [1, 2, 5].map((digit) => digit * 10 ** i)).flat();

/** `whole`: between two steps there is nothing, and so no mark on the axis. */
export function xAxis(axis: Axis, whole: boolean, text: string, grid: string): uPlot.Axis {
  const values = (_: uPlot, ticks: number[]) => ticks.map((tick) => onAxis(axis, tick));
  const incrs = whole ? { incrs: WHOLE } : {};
  return { ...look(text, grid), ...incrs, values, size: 28, space: 80, grid: { show: false } };
}

export function yAxis(log: boolean, text: string, grid: string): uPlot.Axis {
  const values = (_: uPlot, ticks: (number | null)[]) => ticks.map((tick) => (tick === null ? "" : number(tick, 4)));
  const wide = (u: uPlot, labels: string[] | null) => {
    if (!labels?.length) return NARROWEST;
    u.ctx.font = FONT;
    return Math.max(
      NARROWEST,
      14 + Math.max(...labels.map((label) => u.ctx.measureText(label).width / devicePixelRatio)),
    );
  };
  return { ...look(text, grid), values, size: wide, space: log ? 24 : 36 };
}

export function seriesOf(line: Line): uPlot.Series[] {
  const plain = { stroke: line.colour, width: 1.5, points: { size: 5, fill: line.colour } };
  const faint = { stroke: `${line.colour}55`, width: 1, points: { show: false } };
  return line.faint ? [faint, plain] : [plain];
}
