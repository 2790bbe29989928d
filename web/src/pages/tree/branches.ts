// The loaded children of one parent: stretches of siblings, and holes between them. Independent of the screen and the
// server.

import type { Branch, TreeNode } from "../../types";

export interface Item {
  key: string;
  at: number; // its index among its siblings; for a fold that of its first sibling
  span: number; // the number of siblings it stands for: 1, or the count of a fold
  node: TreeNode;
}

export interface Stretch {
  from: number;
  to: number; // exclusive
  items: Item[];
}

/** The children of a call (`parent` null: of the run), from sibling `from` to sibling `to`. */
export interface Part {
  key: string;
  parent: string | null;
  from: number;
  to: number | null; // null: not requested yet
  folding: boolean; // whether the server may fold repeated siblings
  stretches: Stretch[]; // in order, never overlapping
}

export function emptyPart(key: string, parent: string | null): Part {
  return { key, parent, from: 0, to: null, folding: true, stretches: [] };
}

/** The part for the siblings of a fold, shown one by one. */
export function foldPart(item: Item, parent: string | null): Part {
  return { key: item.key, parent, from: item.at, to: item.at + item.span, folding: false, stretches: [] };
}

function keyOf(node: TreeNode, parent: string | null, at: number): string {
  if (node.kind === "call") return `call ${node.id}`;
  return `${node.kind} ${parent ?? ""} ${at}`;
}

export function itemsOf(branch: Branch, parent: string | null): Item[] {
  let at = branch.offset;
  return branch.nodes.map((node) => {
    const span = node.kind === "fold" ? node.count : 1;
    const first = node.kind === "fold" ? node.offset : at;
    at = first + span;
    return { key: keyOf(node, parent, first), at: first, span, node };
  });
}

function endOf(branch: Branch, items: Item[], part: Part): number {
  const last = items[items.length - 1];
  const knownEnd = branch.next ?? (part.folding ? branch.total : (part.to ?? branch.total));
  const shown = last ? last.at + last.span : branch.offset;
  return Math.max(knownEnd, shown);
}

/** The part with one more answer, which replaces what was loaded for the same siblings. */
export function withBranch(part: Part, branch: Branch): Part {
  const items = itemsOf(branch, part.parent);
  const from = branch.offset;
  const to = endOf(branch, items, part);
  const remaining = part.stretches.flatMap((stretch) => without(stretch, from, to));
  const stretches = to > from ? [...remaining, { from, to, items }] : remaining;
  stretches.sort((a, b) => a.from - b.from);
  // A fold keeps its end, even if the parent has grown since.
  const end = part.folding ? Math.max(branch.total, to) : part.to;
  return { ...part, to: end, stretches };
}

function without(stretch: Stretch, from: number, to: number): Stretch[] {
  if (stretch.to <= from || stretch.from >= to) return [stretch];
  const before = stretch.items.filter((item) => item.at + item.span <= from);
  const after = stretch.items.filter((item) => item.at >= to);
  const left = { from: stretch.from, to: from, items: before };
  const right = { from: after[0]?.at ?? to, to: stretch.to, items: after };
  return [left, right].filter((each) => each.items.length > 0);
}

/** Siblings not loaded yet, as [from, to). */
export function holesOf(part: Part): [number, number][] {
  if (part.to === null) return [];
  const holes: [number, number][] = [];
  let at = part.from;
  for (const stretch of part.stretches) {
    if (stretch.from > at) holes.push([at, stretch.from]);
    at = Math.max(at, stretch.to);
  }
  if (part.to > at) holes.push([at, part.to]);
  return holes;
}

/** The item that holds a sibling, if it is loaded. */
export function itemAt(part: Part, at: number): Item | undefined {
  const stretch = part.stretches.find((each) => each.from <= at && at < each.to);
  return stretch?.items.find((item) => item.at <= at && at < item.at + item.span);
}

export function itemOfCall(part: Part, call: string): Item | undefined {
  for (const stretch of part.stretches) {
    const found = stretch.items.find((item) => item.node.kind === "call" && item.node.id === call);
    if (found) return found;
  }
  return undefined;
}

/** The number of changes up to a sibling, inclusive; null if an earlier one is folded or not loaded. */
export function changesUpTo(part: Part, at: number): number | null {
  let next = 0;
  let found = 0;
  for (const { items } of part.stretches) {
    for (const item of items) {
      if (item.at > at) break;
      if (item.at !== next || item.node.kind === "fold") return null;
      next += 1;
      if (item.node.kind === "change") found += 1;
    }
  }
  return next === at + 1 ? found : null;
}

/** Whether it has children to open. */
export function opens(node: TreeNode): boolean {
  return node.kind === "fold" || (node.kind === "call" && node.inside > 0);
}
