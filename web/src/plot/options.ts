// The options of uPlot: what axes and lines look like.

import type uPlot from "uplot";
import { number } from "../format";
import type { Axis } from "../types";
import { type Line, onAxis } from "./lines";

export function size(box: HTMLElement): { width: number; height: number } {
  return { width: Math.max(80, box.clientWidth), height: Math.max(80, box.clientHeight) };
}

const NARROWEST = 44; // px; the histogram below a plot starts at the same position
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

/** `whole`: the axis has marks only at whole numbers. */
export function xAxis(axis: Axis, whole: boolean, text: string, grid: string): uPlot.Axis {
  const values = (_: uPlot, ticks: number[]) => ticks.map((tick) => onAxis(axis, tick));
  const incrs = whole ? { incrs: WHOLE } : {};
  return { ...look(text, grid), ...incrs, values, size: 28, space: 80, grid: { show: false } };
}

const SPACE = 36; // px between two marks
const DIGITS = 15; // significant digits of a double

const SLIP = 1e-9; // tolerance relative to a step: 0.7 / 0.1 is not exactly 7

/** A step of 1, 2, 2.5 or 5 at any scale that gives at most so many marks; null if there can be none. */
function stepFor(low: number, high: number, most: number): number | null {
  const span = high - low;
  if (!(span > 0) || span === Infinity) return null;
  const first = Math.floor(Math.log10(span / most));
  const steps = [0, 1].flatMap((more) => [1, 2, 2.5, 5].map((digit) => Number(`${digit}e${first + more}`)));
  return steps.find((step) => step > 0 && span / step <= most) ?? null;
}

/** The marks of an axis, each a whole number of steps. uPlot's own end at 1e-16 and 1e15, and gradients do not. */
export function marksBetween(low: number, high: number, most: number): number[] {
  const step = stepFor(low, high, most);
  if (step === null) return [];
  const first = Math.ceil(low / step - SLIP);
  const count = Math.max(0, Math.floor(high / step + SLIP) - first + 1);
  return Array.from({ length: Math.min(count, most + 1) }, (_, i) => tidy((first + i) * step, step));
}

/** 0.30000000000000004 as 0.3, unless the last digits distinguish two marks. */
function tidy(value: number, step: number): number {
  const round = Number(value.toPrecision(DIGITS));
  return Math.abs(round - value) < step * SLIP ? round : value;
}

/** uPlot draws an axis only where it has found a step; the marks are made otherwise, so one that is too large will do, if it is not so small
 * that it would look for its decimals in a table. */
const anyStep = (_u: uPlot, _axis: number, low: number, high: number): number[] => [Math.max(10, high - low)];

const marks = (u: uPlot, _axis: number, low: number, high: number): number[] =>
  marksBetween(low, high, Math.max(2, Math.floor(u.bbox.height / devicePixelRatio / SPACE)));

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
  const anyScale = log ? {} : { incrs: anyStep, splits: marks };
  return { ...look(text, grid), ...anyScale, values, size: wide, space: log ? 24 : SPACE };
}

export function seriesOf(line: Line): uPlot.Series[] {
  const plain = { stroke: line.colour, width: 1.5, points: { size: 5, fill: line.colour } };
  const faint = { stroke: `${line.colour}55`, width: 1, points: { show: false } };
  return line.faint ? [faint, plain] : [plain];
}
