// The open part of the tree as one list of rows for the screen. A hole of a million siblings is one entry, so that the
// cost depends only on what is loaded.

import type { Refusal } from "../../types";
import { holesOf, opens, type Item, type Part } from "./branches";

export interface NodeRow {
  kind: "node";
  key: string;
  level: number;
  item: Item;
  parentKey: string | null; // the row of its parent
  partKey: string;
  open: boolean;
  setSize: number;
  scale: number; // seconds of a full bar: the parent's duration
}

export interface HoleRow {
  kind: "hole";
  level: number;
  partKey: string;
  parentKey: string | null;
  from: number; // siblings
  count: number;
}

export interface NoteRow {
  kind: "note"; // a part that is loading or failed to load
  level: number;
  partKey: string;
  parentKey: string | null;
  problem: string | null;
}

export type Row = NodeRow | HoleRow | NoteRow;

export interface Rows {
  rows: Row[];
  starts: number[]; // the line of each row; a hole takes one line per sibling
  lines: number;
  place: Map<string, number>; // from the key of a node to its index in `rows`
}

export interface TreeState {
  parts: ReadonlyMap<string, Part>;
  open: ReadonlySet<string>;
  problems: ReadonlyMap<string, Refusal>;
}

export const ROOT = "root";

export function rowsOf(state: TreeState): Rows {
  const made: Rows = { rows: [], starts: [], lines: 0, place: new Map() };
  addPart(made, state, ROOT, null, 0, null);
  return made;
}

function add(made: Rows, row: Row): void {
  if (row.kind === "node") made.place.set(row.key, made.rows.length);
  made.rows.push(row);
  made.starts.push(made.lines);
  made.lines += row.kind === "hole" ? row.count : 1;
}

function addPart(
  made: Rows,
  state: TreeState,
  partKey: string,
  parentKey: string | null,
  level: number,
  outer: number | null,
): void {
  const part = state.parts.get(partKey);
  const problem = state.problems.get(partKey)?.error ?? null;
  const note: NoteRow = { kind: "note", level, partKey, parentKey, problem };
  if (!part || part.to === null || (problem !== null && part.stretches.length === 0)) {
    add(made, note);
    return;
  }
  const scale = outer ?? longest(part);
  const holes = problem === null ? holesOf(part) : []; // after an error, only what is loaded is shown, with the error
  let next = 0;
  const addHolesBefore = (at: number): void => {
    for (let hole = holes[next]; hole && hole[0] < at; hole = holes[++next]) {
      add(made, { kind: "hole", level, partKey, parentKey, from: hole[0], count: hole[1] - hole[0] });
    }
  };
  for (const stretch of part.stretches) {
    addHolesBefore(stretch.from);
    for (const item of stretch.items) addItem(made, state, part, item, parentKey, level, scale);
  }
  addHolesBefore(Infinity);
  if (problem !== null) add(made, note);
}

function addItem(
  made: Rows,
  state: TreeState,
  part: Part,
  item: Item,
  parentKey: string | null,
  level: number,
  scale: number,
): void {
  const open = opens(item.node) && state.open.has(item.key);
  const setSize = (part.to ?? part.from) - part.from;
  add(made, { kind: "node", key: item.key, level, item, parentKey, partKey: part.key, open, setSize, scale });
  if (!open) return;
  // Siblings in a fold belong to the same call, so their bars keep its scale.
  const inner = item.node.kind === "call" ? item.node.duration : scale;
  addPart(made, state, item.key, item.key, level + 1, inner);
}

/** Roots have no parent: the longest root fills the bar. */
function longest(part: Part): number {
  let most = 0;
  for (const stretch of part.stretches) {
    for (const { node } of stretch.items) {
      if (node.kind === "call") most = Math.max(most, node.duration ?? 0);
      if (node.kind === "fold") most = Math.max(most, node.seconds);
    }
  }
  return most;
}

/** The index of the row that covers a line of the screen's list. */
export function rowAtLine(rows: Rows, line: number): number {
  let low = 0;
  let high = rows.rows.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((rows.starts[middle] ?? 0) <= line) low = middle;
    else high = middle - 1;
  }
  return low;
}
