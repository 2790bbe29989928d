// Cuts and reduces curves in the browser, because a report has no server.

import type { Curve, TensorCurve } from "../types";

type Numbers = (number | null)[];

/** The first index of `x` (ascending) that is not below `value`. */
export function lowerBound(x: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The points between `from` and `to`, with one neighbour on each side, so that the line reaches the edges. */
function between(x: number[], from: number | null, to: number | null): [number, number] {
  const first = from === null ? 0 : Math.max(0, lowerBound(x, from) - 1);
  const last = to === null ? x.length : Math.min(x.length, lowerBound(x, to) + 1);
  return [first, Math.max(first, last)];
}

export function cutCurve(curve: Curve, from: number | null, to: number | null, px: number | null): Curve {
  const [first, last] = between(curve.x, from, to);
  const marks = curve.marks.filter((mark) => (from === null || mark.x >= from) && (to === null || mark.x <= to));
  const uncut = last - first === curve.x.length;
  const part: Curve = {
    ...curve,
    // For a part of a reduced curve, the number of values is unknown.
    inside: uncut ? curve.inside : curve.reduced ? NaN : last - first,
    x: curve.x.slice(first, last),
    y: curve.y.slice(first, last),
    low: curve.low?.slice(first, last),
    high: curve.high?.slice(first, last),
    marks,
    marksTotal: curve.marks.length === curve.marksTotal ? marks.length : curve.marksTotal,
  };
  return px !== null && part.x.length > 2 * px ? reduceCurve(part, px) : part;
}

/** One point for each of `buckets` equal runs of points: the last value, the minimum and the maximum. */
export function reduceCurve(curve: Curve, buckets: number): Curve {
  const size = Math.ceil(curve.x.length / Math.max(1, buckets));
  const x: number[] = [];
  const y: Numbers = [];
  const low: Numbers = [];
  const high: Numbers = [];
  for (let start = 0; start < curve.x.length; start += size) {
    const end = Math.min(curve.x.length, start + size);
    let last: number | null = null;
    let least: number | null = null;
    let most: number | null = null;
    for (let i = start; i < end; i++) {
      last = curve.y[i] ?? last;
      const below = curve.low?.[i] ?? curve.y[i];
      const above = curve.high?.[i] ?? curve.y[i];
      if (below !== null && (least === null || below < least)) least = below;
      if (above !== null && (most === null || above > most)) most = above;
    }
    x.push(curve.x[end - 1]);
    y.push(last);
    low.push(least);
    high.push(most);
  }
  return { ...curve, reduced: true, x, y, low, high };
}

export function cutTensors(curve: TensorCurve, from: number | null, to: number | null): TensorCurve {
  const [first, last] = between(curve.x, from, to);
  const part = <T>(list: T[]) => list.slice(first, last);
  return {
    ...curve,
    inside: last - first,
    x: part(curve.x),
    index: part(curve.index),
    min: part(curve.min),
    max: part(curve.max),
    mean: part(curve.mean),
    std: part(curve.std),
    nan: part(curve.nan),
    inf: part(curve.inf),
    full: part(curve.full),
  };
}
