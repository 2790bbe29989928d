// The surface that shows the graph, with dragging, zooming, clicking and keys.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Button } from "../../ui";
import { centred, fit, fitReadable, hit, panned, regionOf, resized, zoomed, type Camera, type Size } from "./camera";
import { Drawing } from "./Drawing";
import type { Group } from "./groups";
import { sameThings, type Drawn } from "./useLayout";

const READABLE = 0.45; // zoom below which text is left out
const KEYS = "The graph. Arrows move it, plus and minus zoom, 0 shows the whole, Tab goes through nodes, Enter opens.";
const STEP = 80; // px for an arrow key

interface CanvasProps {
  drawn: Drawn;
  chosen: string | null;
  hits: ReadonlySet<string>;
  searching: boolean;
  look: { box: string; turn: number } | null; // centre this box
  onChoose: (box: string | null) => void;
  onOpen: (box: string) => void;
  onToggle: (group: Group) => void;
}

export function Canvas(props: CanvasProps) {
  const { drawn, chosen } = props;
  const { layout } = drawn;
  const svg = useRef<SVGSVGElement>(null);
  const view = useSize(svg);
  const [camera, setCamera] = useCamera(drawn, view, chosen);
  const drag = useDrag((dx, dy) => setCamera((old) => panned(old, dx, dy)));
  const looked = useRef(0);
  useEffect(() => {
    const rect = props.look && layout.boxes[props.look.box]; // the box may appear only in the next layout
    if (!rect || looked.current === props.look!.turn) return;
    looked.current = props.look!.turn;
    setCamera((old) => centred(rect, Math.max(old.zoom, 0.8), view));
  }, [props.look?.turn, drawn]);
  const zoomAt = (factor: number, px = view.width / 2, py = view.height / 2): void =>
    setCamera((old) => zoomed(old, factor, px, py, layout, view));
  useWheel(svg, (event) => {
    const box = svg.current!.getBoundingClientRect();
    if (event.shiftKey) setCamera((old) => panned(old, -event.deltaY - event.deltaX, 0));
    else
      zoomAt(
        Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0015)),
        event.clientX - box.left,
        event.clientY - box.top,
      );
  });
  const boxAt = (event: MouseEvent): string | null => {
    const box = svg.current!.getBoundingClientRect();
    return hit(layout, camera, event.clientX - box.left, event.clientY - box.top);
  };
  const keys = (event: KeyboardEvent): void => {
    const focused = (event.target as Element).closest?.("[data-box]")?.getAttribute("data-box") ?? null;
    if (focused && event.key === " ") props.onChoose(focused);
    else if (event.key === "Enter" && (focused ?? chosen)) props.onOpen((focused ?? chosen)!);
    else if (event.key === "Escape") props.onChoose(null);
    else if (!moveByKey(event.key, zoomAt, setCamera, () => fit(layout, view))) return;
    event.preventDefault();
  };
  const region = regionOf(camera, view);
  const seen = useMemo(() => region, [region.left, region.top, region.right, region.bottom]);
  return (
    <div class="graph-canvas">
      <svg
        ref={svg}
        class={drag.on ? "dragging" : ""}
        tabindex={0}
        role="group"
        aria-label={KEYS}
        onPointerDown={drag.down}
        onPointerMove={drag.move}
        onPointerUp={drag.up}
        onPointerCancel={drag.up}
        onClick={(event) => !drag.moved.current && !inFrameName(event) && props.onChoose(boxAt(event))}
        onDblClick={(event) => {
          const box = boxAt(event);
          if (box) props.onOpen(box);
        }}
        onKeyDown={keys}
      >
        <defs>
          <marker
            id="graph-arrow"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="9"
            markerHeight="9"
            markerUnits="userSpaceOnUse"
            orient="auto-start-reverse"
          >
            <path d="M0 0.5 8 4 0 7.5z" />
          </marker>
        </defs>
        <g transform={`scale(${camera.zoom}) translate(${-camera.x} ${-camera.y})`}>
          <Drawing
            view={drawn.view}
            layout={layout}
            region={seen}
            detailed={camera.zoom >= READABLE}
            chosen={chosen}
            hits={props.hits}
            searching={props.searching}
            onToggle={props.onToggle}
          />
        </g>
      </svg>
      <div class="graph-zoom" role="group" aria-label="Zoom">
        <Button small label="Nearer (+)" class="only-icon" onClick={() => zoomAt(1.4)}>
          +
        </Button>
        <Button small label="Farther (-)" class="only-icon" onClick={() => zoomAt(1 / 1.4)}>
          −
        </Button>
        <Button small hint="The whole (0)" onClick={() => setCamera(() => fit(layout, view))}>
          Fit
        </Button>
        <span class="muted">{Math.round(camera.zoom * 100)} %</span>
      </div>
    </div>
  );
}

function inFrameName(event: MouseEvent): boolean {
  return (event.target as Element).closest?.(".graph-frame-name") != null;
}

type SetCamera = (change: (old: Camera) => Camera) => void;

function moveByKey(key: string, zoomAt: (factor: number) => void, setCamera: SetCamera, whole: () => Camera): boolean {
  const moves: Record<string, [number, number]> = {
    ArrowLeft: [STEP, 0],
    ArrowRight: [-STEP, 0],
    ArrowUp: [0, STEP],
    ArrowDown: [0, -STEP],
  };
  if (key === "+" || key === "=") zoomAt(1.25);
  else if (key === "-") zoomAt(0.8);
  else if (key === "0") setCamera(whole);
  else if (moves[key]) setCamera((old) => panned(old, ...moves[key]));
  else return false;
  return true;
}

/** A new layout is shown at a readable zoom; after opening a group, the selected box stays in place. */
function useCamera(drawn: Drawn, view: Size, chosen: string | null): [Camera, SetCamera] {
  const [camera, setCamera] = useState<Camera>({ x: 0, y: 0, zoom: 1 });
  const before = useRef<{ drawn: Drawn; sized: boolean } | null>(null);
  useLayoutEffect(() => {
    const old = before.current;
    const sized = view.width > 0;
    before.current = { drawn, sized };
    if (!sized || (old?.sized && sameThings(old.drawn.view, drawn.view))) return;
    const anchor = old?.sized ? anchorOf(old.drawn, drawn, chosen) : null;
    if (!anchor) setCamera(fitReadable(drawn.layout, view));
    else setCamera((now) => ({ ...now, x: now.x + anchor.dx, y: now.y + anchor.dy }));
  }, [drawn, view.width > 0]);
  const size = useRef(view);
  useLayoutEffect(() => {
    const old = size.current;
    size.current = view;
    const rect = chosen === null ? undefined : drawn.layout.boxes[chosen];
    if (old.width > 0) setCamera((now) => resized(now, old, view, rect));
  }, [view.width, view.height]);
  return [camera, setCamera];
}

function anchorOf(old: Drawn, now: Drawn, chosen: string | null): { dx: number; dy: number } | null {
  if (chosen === null) return null;
  const name = chosen.replace(/^module /, "frame ");
  const before = old.layout.boxes[chosen] ?? old.layout.frames[name];
  const after = now.layout.boxes[chosen] ?? now.layout.frames[name];
  if (!before || !after) return null;
  return { dx: after.x - before.x, dy: after.y - after.height / 2 - (before.y - before.height / 2) };
}

function useSize(svg: { current: SVGSVGElement | null }): Size {
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const measure = () => {
      const box = svg.current?.getBoundingClientRect();
      if (box) setSize({ width: box.width, height: box.height });
    };
    measure();
    if (typeof ResizeObserver === "undefined") return;
    const watch = new ResizeObserver(measure);
    watch.observe(svg.current!);
    return () => watch.disconnect();
  }, []);
  return size;
}

/** The wheel must not scroll the page, which a passive listener cannot prevent. */
function useWheel(svg: { current: SVGSVGElement | null }, turned: (event: WheelEvent) => void): void {
  const latest = useRef(turned);
  latest.current = turned;
  useEffect(() => {
    const element = svg.current!;
    const listen = (event: WheelEvent) => {
      event.preventDefault();
      latest.current(event);
    };
    element.addEventListener("wheel", listen, { passive: false });
    return () => element.removeEventListener("wheel", listen);
  }, []);
}

function useDrag(dragged: (dx: number, dy: number) => void) {
  const from = useRef<{ x: number; y: number } | null>(null);
  const moved = useRef(false);
  const [on, setOn] = useState(false);
  const down = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    from.current = { x: event.clientX, y: event.clientY };
    moved.current = false;
  };
  const move = (event: PointerEvent): void => {
    if (!from.current) return;
    const [dx, dy] = [event.clientX - from.current.x, event.clientY - from.current.y];
    if (!moved.current && Math.hypot(dx, dy) < 4) return; // still a click, if the pointer moved only slightly
    if (!moved.current) (event.currentTarget as Element).setPointerCapture?.(event.pointerId);
    moved.current = true;
    setOn(true);
    from.current = { x: event.clientX, y: event.clientY };
    dragged(dx, dy);
  };
  const up = (): void => {
    from.current = null;
    setOn(false);
  };
  return { on, moved, down, move, up };
}
