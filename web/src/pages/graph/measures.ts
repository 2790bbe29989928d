// The size and text of a box, computed before drawing, because the layout needs them.

import { duration, shape } from "../../format";
import type { LayoutInput } from "../../layout/shapes";
import type { ValueBox } from "../../types";
import type { Box, Link, View } from "./groups";

const LETTER = 7.2; // px of a monospaced letter at 12 px
const SMALL = 6.2; // at 10.5 px
export const TINY = 6.1; // at 10 px, with some margin
const LONGEST = 34; // letters; the panel shows the whole text

export interface BoxText {
  title: string;
  below: string; // shape, time, number of nodes
}

export function cut(text: string, letters: number): string {
  return text.length <= letters ? text : `${text.slice(0, letters - 1)}…`;
}

export function textOf(box: Box): BoxText {
  const below: string[] = [];
  if (box.group) below.push(`${box.group.size} nodes`);
  if (box.node?.value && !box.leads) below.push(valueText(box.node.value));
  if (box.seconds !== null) below.push(duration(box.seconds));
  if (box.node?.calls && box.node.calls > 1) below.push(`×${box.node.calls}`);
  return { title: cut(box.label || box.node?.kind || "?", LONGEST), below: cut(below.join(" · "), LONGEST + 6) };
}

/** The text of a link: what it carries, and how many edges it represents. */
export function linkText(link: Link): string {
  const more = link.count > 1 ? ` ×${link.count}` : "";
  return (cut(link.labels[0] ?? "", LONGEST + 8) + more).trim();
}

/** The shape of a tensor, or the text of another value. */
function valueText(value: ValueBox): string {
  return value.shape ? `${value.dtype ?? ""} ${shape(value.shape)}`.trim() : cut(value.text, 18);
}

export function sizeOf(box: Box): { width: number; height: number } {
  const { title, below } = textOf(box);
  const width = Math.max(title.length * LETTER + (box.group ? 18 : 0), below.length * SMALL) + 24;
  return { width: Math.max(64, Math.round(width)), height: below ? 42 : 30 };
}

export function layoutInput(view: View): LayoutInput {
  const frameId = (path: string | null) => (path === null ? null : `frame ${path}`);
  return {
    boxes: view.boxes.map((box) => ({ id: box.id, ...sizeOf(box), frame: frameId(box.frame) })),
    frames: view.frames.map((group) => ({ id: `frame ${group.path}`, frame: frameId(group.parent) })),
    links: view.links.map((link) => ({
      from: link.from,
      to: link.to,
      text: view.roomy ? linkText(link).length * TINY : 0,
    })),
  };
}
