// The plain layout, used if the good one takes too long: boxes in layers by their distance from the start, ordered
// within a layer by their predecessors. It visits every link only a few times.

import { withLoops } from "./loops";
import { GAP, LAYER, type Layout, type LayoutBox, type LayoutInput, type Point, type Rect } from "./shapes";

const WIDEST = 40; // boxes in one row; a longer layer continues below

export const layeredLayout = withLoops((input: LayoutInput): Layout => {
  const follows = followers(input);
  const layers = inLayers(input, follows);
  sortByWhatLeads(layers, input);
  return place(layers, input);
});

function followers(input: LayoutInput): Map<string, string[]> {
  const follows = new Map<string, string[]>(input.boxes.map((box) => [box.id, []]));
  for (const { from, to } of input.links) {
    if (from !== to && follows.has(to)) follows.get(from)?.push(to);
  }
  return follows;
}

/** Boxes in topological order, ignoring links that lead back. Not recursive, because graphs are deep. */
function ordered(input: LayoutInput, follows: Map<string, string[]>): string[] {
  const seen = new Set<string>();
  const done: string[] = [];
  for (const root of input.boxes) {
    if (seen.has(root.id)) continue;
    seen.add(root.id);
    const stack: { id: string; next: number }[] = [{ id: root.id, next: 0 }];
    for (let top = stack[0]; top; top = stack[stack.length - 1]) {
      const child = follows.get(top.id)?.[top.next++];
      if (child === undefined) {
        done.push(top.id);
        stack.pop();
      } else if (!seen.has(child)) {
        seen.add(child);
        stack.push({ id: child, next: 0 });
      }
    }
  }
  return done.reverse();
}

function inLayers(input: LayoutInput, follows: Map<string, string[]>): LayoutBox[][] {
  const order = ordered(input, follows);
  const turn = new Map(order.map((id, index) => [id, index]));
  const depth = new Map<string, number>();
  for (const id of order) {
    const own = depth.get(id) ?? 0;
    depth.set(id, own);
    for (const child of follows.get(id) ?? []) {
      const leadsBack = (turn.get(child) ?? 0) <= (turn.get(id) ?? 0);
      if (!leadsBack) depth.set(child, Math.max(depth.get(child) ?? 0, own + 1));
    }
  }
  const layers: LayoutBox[][] = [];
  for (const box of input.boxes) (layers[depth.get(box.id) ?? 0] ??= []).push(box);
  return layers.filter((layer) => layer !== undefined);
}

function sortByWhatLeads(layers: LayoutBox[][], input: LayoutInput): void {
  const leads = new Map<string, string[]>();
  for (const { from, to } of input.links) leads.set(to, [...(leads.get(to)?.slice(0, 20) ?? []), from]);
  const position = new Map<string, number>();
  for (const layer of layers) {
    const wish = new Map(
      layer.map((box, index) => [box.id, mean(leads.get(box.id), position) ?? index / layer.length]),
    );
    layer.sort((a, b) => wish.get(a.id)! - wish.get(b.id)!);
    layer.forEach((box, index) => position.set(box.id, (index + 0.5) / layer.length));
  }
}

function mean(ids: string[] | undefined, position: Map<string, number>): number | null {
  const positions = (ids ?? []).map((id) => position.get(id)).filter((at) => at !== undefined);
  return positions.length ? positions.reduce((sum, at) => sum + at, 0) / positions.length : null;
}

function place(layers: LayoutBox[][], input: LayoutInput): Layout {
  const rows = layers.flatMap((layer) => chunks(layer, WIDEST));
  const widthOf = (row: LayoutBox[]) => row.reduce((sum, box) => sum + box.width + GAP, -GAP);
  const width = rows.reduce((most, row) => Math.max(most, widthOf(row)), 0) + 2 * GAP;
  const boxes: Record<string, Rect> = {};
  let y = GAP;
  for (const row of rows) {
    const height = row.reduce((most, box) => Math.max(most, box.height), 0);
    let x = (width - widthOf(row)) / 2;
    for (const box of row) {
      boxes[box.id] = { x: x + box.width / 2, y: y + height / 2, width: box.width, height: box.height };
      x += box.width + GAP;
    }
    y += height + LAYER;
  }
  const links = input.links.map(({ from, to }) => straight(boxes[from], boxes[to]));
  const texts = links.map((points, index) => (input.links[index].text ? middle(points) : null));
  return { boxes, frames: {}, links, texts, width, height: Math.max(0, y - LAYER + GAP) };
}

function chunks<T>(all: T[], size: number): T[][] {
  const parts: T[][] = [];
  for (let at = 0; at < all.length; at += size) parts.push(all.slice(at, at + size));
  return parts;
}

function middle(points: Point[]): Point | null {
  const [from, to] = points;
  return from && to ? { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 } : null;
}

function straight(from: Rect | undefined, to: Rect | undefined): Point[] {
  if (!from || !to) return [];
  const down = to.y >= from.y ? 1 : -1;
  return [
    { x: from.x, y: from.y + (down * from.height) / 2 },
    { x: to.x, y: to.y - (down * to.height) / 2 },
  ];
}
