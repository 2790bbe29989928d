// The requests of the tree, and the search for one call among a million siblings.

import type { Branch } from "../../types";

export interface BranchQuery {
  parent: string | null;
  offset: number;
  limit: number;
  fold: boolean;
}

export type Ask = (query: BranchQuery) => Promise<Branch>;

const WINDOW = 64; // siblings requested together

interface Span {
  low: number; // the sibling is at one of low … high
  high: number;
  before: number | null; // start times of the calls just before and after this range
  after: number | null;
}

/** Siblings are in order of their start, so a few requests are enough. Null if the call is not among them. */
export async function findSibling(
  ask: Ask,
  parent: string | null,
  total: number,
  call: string,
  start: number,
): Promise<number | null> {
  const span: Span = { low: 0, high: total, before: null, after: null };
  for (let turn = 0; span.low < span.high; turn += 1) {
    const offset = guess(span, start, turn % 3 === 2);
    const { nodes } = await ask({ parent, offset, limit: WINDOW, fold: false });
    const index = nodes.findIndex((node) => node.kind === "call" && node.id === call);
    if (index >= 0) return offset + index;
    if (nodes.length === 0) return null;
    const starts = nodes.filter((node) => node.kind === "call").map((node) => node.start);
    if (starts.length > 0 && starts[0] > start) Object.assign(span, { high: offset, after: starts[0] });
    else Object.assign(span, { low: offset + nodes.length, before: starts[starts.length - 1] ?? span.before });
  }
  return null;
}

/** Where to look next: interpolated by time, and now and then in the middle, because calls may be uneven. */
function guess({ low, high, before, after }: Span, start: number, halve: boolean): number {
  if (before !== null && after === null && !halve) return Math.max(low, high - WINDOW); // find out when the siblings end
  const even = before !== null && after !== null && after > before ? (start - before) / (after - before) : 0.5;
  const share = halve ? 0.5 : Math.min(1, Math.max(0, even));
  const middle = low + share * (high - low) - WINDOW / 2;
  return Math.max(low, Math.min(Math.floor(middle), high - 1));
}
