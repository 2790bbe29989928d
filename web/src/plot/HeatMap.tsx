import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { number } from "../format";
import { classes } from "../ui";
import { colourAt, css, MISSING, paint, type Scale } from "./colours";

interface HeatMapProps {
  rows: number;
  cols: number;
  data: (number | null)[]; // row by row
  scale: Scale;
  label: string;
  tip: (row: number, col: number) => ComponentChildren;
  onPick?: (row: number, col: number) => void;
  fill?: boolean; // fills the available space; else cells are squares
  marked?: number | null; // the column that is shown in detail elsewhere
}

/** A table of numbers as colours: one canvas pixel per cell, scaled up by the browser. */
export function HeatMap({ rows, cols, data, scale, label, tip, onPick, fill, marked }: HeatMapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<{ row: number; col: number } | null>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const draw = canvas.current?.getContext?.("2d");
    if (!draw || rows * cols === 0) return;
    draw.putImageData(new ImageData(paint(data, scale), cols, rows), 0, 0);
  }, [data, rows, cols, scale.name, scale.low, scale.high]);
  useLayoutEffect(() => {
    const measure = () => box.current && setWidth(box.current.clientWidth);
    measure();
    if (typeof ResizeObserver === "undefined" || !box.current) return;
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const cell = (event: MouseEvent) => {
    const place = canvas.current!.getBoundingClientRect();
    const col = Math.floor(((event.clientX - place.left) / place.width) * cols);
    const row = Math.floor(((event.clientY - place.top) / place.height) * rows);
    return { row: Math.max(0, Math.min(rows - 1, row)), col: Math.max(0, Math.min(cols - 1, col)) };
  };
  const size = fill ? null : cellSize(rows, cols, width);
  const right = at !== null && at.col > cols / 2;
  return (
    <div class={classes("heat", fill && "fill")} ref={box}>
      <div class="heat-box" style={size ? { width: `${size.width}px`, height: `${size.height}px` } : undefined}>
        <canvas
          ref={canvas}
          width={cols}
          height={rows}
          role="img"
          aria-label={label}
          class={classes(onPick && "pickable")}
          onMouseMove={(event) => setAt(cell(event))}
          onMouseLeave={() => setAt(null)}
          onClick={(event) => {
            const { row, col } = cell(event);
            onPick?.(row, col);
          }}
        />
        {marked !== null && marked !== undefined && marked >= 0 && (
          <span class="heat-mark" style={{ left: `${(marked / cols) * 100}%`, width: `${100 / cols}%` }} />
        )}
        {at && (
          <div
            class="tip"
            style={{
              [right ? "right" : "left"]:
                `calc(${right ? 100 - (at.col / cols) * 100 : ((at.col + 1) / cols) * 100}% + 8px)`,
              top: `calc(${(at.row / rows) * 100}% - 8px)`,
            }}
          >
            {tip(at.row, at.col)}
          </div>
        )}
      </div>
    </div>
  );
}

const LARGEST = 44; // px of a cell's side
const TALLEST = 420;
const THINNEST = 24;

export function cellSize(rows: number, cols: number, width: number): { width: number; height: number } {
  const side = Math.min(LARGEST, Math.max(1, width) / cols, TALLEST / rows);
  return { width: Math.max(THINNEST, side * cols), height: Math.max(THINNEST, side * rows) };
}

/** The legend of the colours. */
export function ScaleLegend({ scale, missing }: { scale: Scale; missing?: boolean }) {
  const steps = Array.from({ length: 11 }, (_, i) => css(colourAt(scale.name, i / 10)));
  return (
    <div class="scale" role="img" aria-label={`Colours from ${number(scale.low)} to ${number(scale.high)}`}>
      <span class="mono">{number(scale.low, 4)}</span>
      <span class="scale-bar" style={{ background: `linear-gradient(to right, ${steps.join(", ")})` }} />
      <span class="mono">{number(scale.high, 4)}</span>
      {missing && (
        <>
          <span class="scale-missing" style={{ background: css(MISSING) }} />
          <span>NaN, Inf</span>
        </>
      )}
    </div>
  );
}
