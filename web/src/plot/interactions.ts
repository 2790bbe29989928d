// Mouse, touch and keyboard interactions of a plot.

import type uPlot from "uplot";
import type { Mark } from "../types";
import { type Line, moved, nearest, type Range } from "./lines";

export interface Handled {
  whole: Range; // all of x
  range: Range | null; // the zoomed range
  onRange: (range: Range | null) => void;
  onPick?: (line: Line, x: number) => void;
  scrolls?: boolean; // the wheel scrolls the page, and zooms only with Ctrl
}

/** What is under the cursor. */
export interface Hover {
  x: number;
  left: number;
  points: { line: Line; i: number }[];
  mark: Mark | null;
}

const CLICK = 4; // px the mouse may move during a click

function view(u: uPlot): Range {
  return [u.scales.x.min ?? 0, u.scales.x.max ?? 1];
}

export function hoverAt(u: uPlot, lines: Line[]): Hover | null {
  const { left, top } = u.cursor;
  if (left === undefined || left === null || left < 0 || top === undefined) return null;
  const x = u.posToVal(left, "x");
  const points = lines.flatMap((line) => {
    const i = nearest(line, x);
    return i === null ? [] : [{ line, i }];
  });
  const near = u.posToVal(left + 6, "x") - x;
  const mark = lines.flatMap((line) => line.marks).find((each) => Math.abs(each.x - x) <= near) ?? null;
  if (points.length === 0 && !mark) return null;
  const first = points.length ? points[0].line.x[points[0].i] : mark!.x;
  const over = u.over.offsetLeft;
  return { x: first, left: left + over, points, mark };
}

export function select(u: uPlot, onRange: Handled["onRange"]): void {
  if (u.select.width < CLICK) return;
  const from = u.posToVal(u.select.left, "x");
  const to = u.posToVal(u.select.left + u.select.width, "x");
  u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  onRange([from, to]);
}

/** Dragging with Shift pans, the wheel and two fingers zoom, and a click picks the nearest curve. */
export function listen(u: uPlot, latest: { current: Handled }, shown: { current: Line[] }): () => void {
  const undo = [byMouse(u, latest, shown), byWheel(u, latest), byTouch(u, latest)];
  return () => undo.forEach((each) => each());
}

function byMouse(u: uPlot, latest: { current: Handled }, shown: { current: Line[] }): () => void {
  const over = u.over;
  let from: { x: number; y: number; range: Range; moving: boolean } | null = null;
  const down = (event: MouseEvent) => {
    if (event.button !== 0) return;
    from = { x: event.clientX, y: event.clientY, range: view(u), moving: event.shiftKey };
    if (event.shiftKey) event.stopImmediatePropagation(); // keeps uPlot from starting a selection
  };
  const move = (event: MouseEvent) => {
    if (!from?.moving) return;
    const perPx = (from.range[1] - from.range[0]) / over.clientWidth;
    const next = moved(from.range, latest.current.whole, { by: (from.x - event.clientX) * perPx });
    if (next) latest.current.onRange(next);
  };
  const up = (event: MouseEvent) => {
    const began = from;
    from = null;
    if (!began || began.moving || Math.hypot(event.clientX - began.x, event.clientY - began.y) >= CLICK) return;
    const box = over.getBoundingClientRect();
    pick(u, shown.current, event.clientX - box.left, event.clientY - box.top, latest.current);
  };
  over.addEventListener("mousedown", down, true);
  window.addEventListener("mousemove", move);
  window.addEventListener("mouseup", up);
  return () => {
    window.removeEventListener("mousemove", move);
    window.removeEventListener("mouseup", up);
  };
}

function byWheel(u: uPlot, latest: { current: Handled }): () => void {
  const wheel = (event: WheelEvent) => {
    const { whole, onRange, scrolls } = latest.current;
    if (scrolls && !event.ctrlKey && !event.shiftKey) return; // the page below the plot scrolls
    event.preventDefault();
    const range = view(u);
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    const at = u.posToVal(event.clientX - u.over.getBoundingClientRect().left, "x");
    const change =
      Math.abs(sideways) > Math.abs(event.deltaY) || event.shiftKey
        ? { by: (sideways / u.over.clientWidth) * (range[1] - range[0]) }
        : { zoom: 1.0018 ** event.deltaY, at };
    onRange(moved(range, whole, change));
  };
  u.over.addEventListener("wheel", wheel, { passive: false });
  return () => u.over.removeEventListener("wheel", wheel);
}

/** Two fingers zoom and pan, so that the range between them stays between them. */
function byTouch(u: uPlot, latest: { current: Handled }): () => void {
  let began: { range: Range; at: number; apart: number } | null = null;
  const fingers = (event: TouchEvent) => {
    const left = u.over.getBoundingClientRect().left;
    const [one, two] = [event.touches[0].clientX - left, event.touches[1].clientX - left];
    return { middle: (one + two) / 2, apart: Math.max(8, Math.abs(one - two)) };
  };
  const start = (event: TouchEvent) => {
    if (event.touches.length !== 2) return;
    const { middle, apart } = fingers(event);
    began = { range: view(u), at: u.posToVal(middle, "x"), apart };
  };
  const move = (event: TouchEvent) => {
    if (!began || event.touches.length !== 2) return;
    event.preventDefault();
    const { middle, apart } = fingers(event);
    const { range, at } = began;
    const span = ((range[1] - range[0]) * began.apart) / apart;
    const low = at - (middle / u.over.clientWidth) * span;
    latest.current.onRange(moved([low, low + span], latest.current.whole, {}));
  };
  const end = () => (began = null);
  u.over.addEventListener("touchstart", start, { passive: true });
  u.over.addEventListener("touchmove", move, { passive: false });
  u.over.addEventListener("touchend", end);
  return end;
}

function pick(u: uPlot, lines: Line[], left: number, top: number, { onPick }: Handled): void {
  const x = u.posToVal(left, "x");
  let best: { line: Line; x: number; far: number } | null = null;
  for (const line of lines) {
    const i = nearest(line, x);
    const mark = line.marks.find((each) => Math.abs(u.valToPos(each.x, "x") - left) < 6);
    if (mark) best = { line, x: mark.x, far: -1 };
    if (i === null) continue;
    const far = Math.abs(u.valToPos(line.y[i]!, "y") - top);
    if (!best || far < best.far) best = { line, x: line.x[i], far };
  }
  if (best) onPick?.(best.line, best.x);
}

const STEP = 8; // px the cursor moves per key press

/** Arrow keys with Shift move the cursor; Enter picks the point under it. */
function cursorKeys(event: KeyboardEvent, u: uPlot, lines: Line[], props: Handled): boolean {
  const by = event.shiftKey ? ({ ArrowLeft: -STEP, ArrowRight: STEP } as Record<string, number>)[event.key] : undefined;
  if (by === undefined && event.key !== "Enter") return false;
  const { clientWidth: width, clientHeight: height } = u.over;
  const unset = u.cursor.left === undefined || u.cursor.left < 0;
  const left = unset ? width / 2 : Math.max(0, Math.min(width, u.cursor.left! + (by ?? 0)));
  const top = unset ? height / 2 : (u.cursor.top ?? height / 2);
  u.setCursor({ left, top });
  if (by === undefined) pick(u, lines, left, top, props);
  return true;
}

export function keys(event: KeyboardEvent, props: Handled, u: uPlot | null, lines: Line[]): void {
  if (u && cursorKeys(event, u, lines, props)) {
    event.preventDefault();
    event.stopPropagation();
    return;
  }
  const range = props.range ?? props.whole;
  const span = range[1] - range[0];
  const changes: Record<string, Parameters<typeof moved>[2]> = {
    "+": { zoom: 0.7 },
    "=": { zoom: 0.7 },
    "-": { zoom: 1 / 0.7 },
    ArrowLeft: { by: -span / 10 },
    ArrowRight: { by: span / 10 },
  };
  if (event.key === "0") props.onRange(null);
  else if (changes[event.key]) props.onRange(moved(range, props.whole, changes[event.key]));
  else return;
  event.preventDefault();
  event.stopPropagation();
}
