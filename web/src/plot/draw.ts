// Draws what uPlot does not: bands, and marks for values that are not finite.

import type uPlot from "uplot";
import type { Mark } from "../types";
import type { Line } from "./lines";

export function drawBands(u: uPlot, lines: Line[]): void {
  const { ctx } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  ctx.clip();
  for (const line of lines) {
    for (const band of line.bands) {
      ctx.fillStyle = line.colour;
      ctx.globalAlpha = band.strength;
      for (const [first, last] of stretches(band.low, band.high))
        fillStretch(u, line.x, band.low, band.high, first, last);
    }
  }
  ctx.restore();
}

/** The runs of indices at which both bounds are known. */
function stretches(low: (number | null)[], high: (number | null)[]): [number, number][] {
  const runs: [number, number][] = [];
  let first = -1;
  for (let i = 0; i <= low.length; i++) {
    const isKnown = i < low.length && low[i] !== null && high[i] !== null;
    if (isKnown && first < 0) first = i;
    if (!isKnown && first >= 0) {
      runs.push([first, i]);
      first = -1;
    }
  }
  return runs;
}

function fillStretch(
  u: uPlot,
  x: number[],
  low: (number | null)[],
  high: (number | null)[],
  first: number,
  last: number,
): void {
  const { ctx } = u;
  ctx.beginPath();
  for (let i = first; i < last; i++) ctx.lineTo(u.valToPos(x[i], "x", true), u.valToPos(high[i]!, "y", true));
  for (let i = last - 1; i >= first; i--) ctx.lineTo(u.valToPos(x[i], "x", true), u.valToPos(low[i]!, "y", true));
  ctx.closePath();
  ctx.fill();
}

export function drawMarks(u: uPlot, lines: Line[], picked: number | null, colour: (name: string) => string): void {
  const { ctx, bbox } = u;
  const px = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  if (picked !== null) {
    const x = u.valToPos(picked, "x", true);
    ctx.strokeStyle = colour("--accent");
    ctx.lineWidth = px;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  for (const line of lines) {
    for (const mark of line.marks) drawMark(u, mark, colour(mark.what === "deleted" ? "--muted" : "--bad"));
  }
  ctx.restore();
}

/** Marks NaN and similar values at the bottom of the plot, and Inf at the edge it points to. */
function drawMark(u: uPlot, mark: Mark, colour: string): void {
  const { ctx, bbox } = u;
  const x = u.valToPos(mark.x, "x", true);
  const step = 5 * devicePixelRatio;
  const top = mark.what === "inf";
  const edge = top ? bbox.top : bbox.top + bbox.height;
  const inwards = top ? step * 1.6 : -step * 1.6;
  ctx.fillStyle = colour;
  ctx.beginPath();
  ctx.moveTo(x - step, edge);
  ctx.lineTo(x + step, edge);
  ctx.lineTo(x, edge + inwards);
  ctx.closePath();
  ctx.fill();
}
