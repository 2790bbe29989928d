// Links from a box to itself, drawn as loops at its right side. Layouts only see a wider box.

import type { Layout, LayoutBox, LayoutInput, LayoutLink, Point, Rect } from "./shapes";

const OUT = 22; // how far a loop reaches
const GAP = 4; // distance to the text beside it

type Lay = (input: LayoutInput) => Layout;

/** Adds loops to a layout that does not support them. */
export function withLoops(lay: Lay): Lay {
  return (input) => {
    const room = roomBeside(input.links);
    if (room.size === 0) return lay(input);
    const wider = (box: LayoutBox) => ({ ...box, width: box.width + (room.get(box.id) ?? 0) });
    const ordinary = input.links.filter((link) => link.from !== link.to);
    return looped(input, lay({ ...input, boxes: input.boxes.map(wider), links: ordinary }), room);
  };
}

function roomBeside(links: LayoutLink[]): Map<string, number> {
  const loops = links.filter((link) => link.from === link.to);
  return new Map(loops.map((link) => [link.from, OUT + (link.text ? GAP + link.text : 0)]));
}

function looped(input: LayoutInput, laid: Layout, room: Map<string, number>): Layout {
  const boxes = { ...laid.boxes };
  for (const [id, beside] of room) {
    const rect = boxes[id];
    if (rect) boxes[id] = { ...rect, x: rect.x - beside / 2, width: rect.width - beside };
  }
  let next = 0;
  const links: Point[][] = [];
  const texts: (Point | null)[] = [];
  for (const link of input.links) {
    const rect = link.from === link.to ? boxes[link.from] : undefined;
    links.push(rect ? loopAt(rect) : shifted(laid.links[next] ?? [], laid, boxes, link));
    texts.push(rect ? beside(rect, link) : (laid.texts[next] ?? null));
    if (link.from !== link.to) next += 1;
  }
  return { ...laid, boxes, links, texts };
}

function loopAt({ x, y, width, height }: Rect): Point[] {
  const right = x + width / 2;
  const [top, bottom] = [y - height / 4, y + height / 4];
  const out = right + OUT;
  return [
    { x: right, y: top },
    { x: out, y: top },
    { x: out, y },
    { x: out, y: bottom },
    { x: right, y: bottom },
  ];
}

function beside(rect: Rect, link: LayoutLink): Point | null {
  return link.text ? { x: rect.x + rect.width / 2 + OUT + GAP + link.text / 2, y: rect.y } : null;
}

/** Moves the ends of a link to the edges of boxes that were narrowed again. */
function shifted(points: Point[], laid: Layout, boxes: Record<string, Rect>, { from, to }: LayoutLink): Point[] {
  const moved = points.map((point) => ({ ...point }));
  const [first, last] = [moved[0], moved[moved.length - 1]];
  if (first && last && boxes[from] && boxes[to]) {
    first.x += boxes[from].x - laid.boxes[from].x;
    last.x += boxes[to].x - laid.boxes[to].x;
  }
  return moved;
}
