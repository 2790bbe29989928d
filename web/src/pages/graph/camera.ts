// The viewport of the graph: its position and zoom, and what is visible.

import type { Layout, Point, Rect } from "../../layout/shapes";

export interface Camera {
  x: number; // graph coordinate at the left edge of the view
  y: number;
  zoom: number; // pixels per unit of the graph
}

export interface Size {
  width: number;
  height: number;
}

export interface Region {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export const NEAREST = 3;

/** The smallest zoom, at which the whole graph is visible. */
function farthest(graph: Size, view: Size): number {
  return Math.min(0.1, fitting(graph, view));
}

function fitting(graph: Size, view: Size): number {
  if (graph.width <= 0 || graph.height <= 0 || view.width <= 0 || view.height <= 0) return 1;
  return Math.min(view.width / graph.width, view.height / graph.height);
}

export function fit(graph: Size, view: Size): Camera {
  const zoom = Math.min(1.25, fitting(graph, view) * 0.96);
  return centred({ x: graph.width / 2, y: graph.height / 2 }, zoom, view);
}

/** A readable zoom at the top of the graph, used if the whole graph would be too small. */
export function fitReadable(graph: Size, view: Size, least = 0.6): Camera {
  const whole = fit(graph, view);
  if (whole.zoom >= least) return whole;
  const camera = centred({ x: graph.width / 2, y: graph.height / 2 }, least, view);
  return graph.height * least > view.height ? { ...camera, y: -8 / least } : camera;
}

export function centred(at: Point, zoom: number, view: Size): Camera {
  return { zoom, x: at.x - view.width / zoom / 2, y: at.y - view.height / zoom / 2 };
}

/** Zoom in or out, keeping the point under (px, py) in place. */
export function zoomed(camera: Camera, factor: number, px: number, py: number, graph: Size, view: Size): Camera {
  const zoom = Math.min(NEAREST, Math.max(farthest(graph, view), camera.zoom * factor));
  const x = camera.x + px / camera.zoom - px / zoom;
  const y = camera.y + py / camera.zoom - py / zoom;
  return { x, y, zoom };
}

export function panned(camera: Camera, dx: number, dy: number): Camera {
  return { ...camera, x: camera.x - dx / camera.zoom, y: camera.y - dy / camera.zoom };
}

/** Adapt to another view size: the centre stays, unless `keep` would leave the view; then that is centred. */
export function resized(camera: Camera, before: Size, now: Size, keep?: Rect): Camera {
  const dx = (before.width - now.width) / 2 / camera.zoom;
  const dy = (before.height - now.height) / 2 / camera.zoom;
  const moved = { ...camera, x: camera.x + dx, y: camera.y + dy };
  if (!keep) return moved;
  const [right, bottom] = [moved.x + now.width / camera.zoom, moved.y + now.height / camera.zoom];
  const across = keep.x - keep.width / 2 >= moved.x && keep.x + keep.width / 2 <= right;
  const down = keep.y - keep.height / 2 >= moved.y && keep.y + keep.height / 2 <= bottom;
  return across && down ? moved : centred(keep, camera.zoom, now);
}

/** The visible region, rounded outwards to half a view, so that it does not change with every pixel. */
export function regionOf(camera: Camera, view: Size): Region {
  const width = view.width / camera.zoom;
  const height = view.height / camera.zoom;
  const stepX = Math.max(1, width / 2);
  const stepY = Math.max(1, height / 2);
  return {
    left: Math.floor(camera.x / stepX) * stepX,
    top: Math.floor(camera.y / stepY) * stepY,
    right: Math.ceil((camera.x + width) / stepX) * stepX,
    bottom: Math.ceil((camera.y + height) / stepY) * stepY,
  };
}

export function sees(region: Region, rect: Rect): boolean {
  return (
    rect.x + rect.width / 2 >= region.left &&
    rect.x - rect.width / 2 <= region.right &&
    rect.y + rect.height / 2 >= region.top &&
    rect.y - rect.height / 2 <= region.bottom
  );
}

export function seesLine(region: Region, points: Point[]): boolean {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const { x, y } of points) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  return right >= region.left && left <= region.right && bottom >= region.top && top <= region.bottom;
}

/** The box at a point of the view. */
export function hit(layout: Layout, camera: Camera, px: number, py: number): string | null {
  const x = camera.x + px / camera.zoom;
  const y = camera.y + py / camera.zoom;
  for (const [id, rect] of Object.entries(layout.boxes)) {
    if (Math.abs(x - rect.x) <= rect.width / 2 && Math.abs(y - rect.y) <= rect.height / 2) return id;
  }
  return null;
}

/** A smooth line through the points, as the `d` of a path. */
export function curve(points: Point[]): string {
  const [first, ...rest] = points;
  if (!first || rest.length === 0) return "";
  const at = ({ x, y }: Point) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  if (rest.length === 1) return `M${at(first)}L${at(rest[0]!)}`;
  let path = `M${at(first)}`;
  for (let i = 0; i < rest.length - 1; i += 1) {
    const corner = rest[i]!;
    const next = rest[i + 1]!;
    const end = i === rest.length - 2 ? next : { x: (corner.x + next.x) / 2, y: (corner.y + next.y) / 2 };
    path += `Q${at(corner)} ${at(end)}`;
  }
  return path;
}
