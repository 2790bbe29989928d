import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { classes } from "./classes";

interface VirtualListProps {
  count: number;
  row: number; // height of a row in px
  render: (index: number) => ComponentChildren;
  label: string;
  role?: "listbox" | "tree"; // the rows are then options or treeitems
  rowProps?: (index: number) => Record<string, unknown>; // aria-level, aria-expanded, aria-selected …
  active?: number; // the row with the keyboard cursor
  onActive?: (index: number) => void;
  onOpen?: (index: number) => void; // Enter, or a click
  onKey?: (event: KeyboardEvent, index: number) => boolean; // called before the list handles the key; true: handled
  onRange?: (first: number, last: number) => void; // the visible rows, to load them
  many?: boolean; // several rows may be selected
  class?: string;
}

const TALLEST = 8_000_000; // px; browsers do not support much larger elements
const SPARE = 6; // extra rows drawn above and below the visible ones

/** A list of any length that draws only its visible rows. Keys: j k arrows Page Home End Enter. */
export function VirtualList(props: VirtualListProps) {
  const { count, row, active = -1 } = props;
  const box = useRef<HTMLDivElement>(null);
  const id = useId();
  const [view, setView] = useState({ top: 0, height: 600 });
  const full = count * row;
  const height = Math.min(full, TALLEST);
  // If the list is taller than browsers support, one pixel of scrolling stands for several.
  const scale = full > height ? (full - view.height) / Math.max(1, height - view.height) : 1;
  const offset = view.top * scale;
  const first = Math.max(0, Math.floor(offset / row) - SPARE);
  const last = Math.min(count, Math.ceil((offset + view.height) / row) + SPARE);

  const measure = () => {
    const { scrollTop, clientHeight } = box.current!;
    setView((old) =>
      old.top === scrollTop && old.height === clientHeight ? old : { top: scrollTop, height: clientHeight || 600 },
    );
  };
  useLayoutEffect(() => {
    measure();
    if (typeof ResizeObserver === "undefined") return;
    const watch = new ResizeObserver(measure);
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  useEffect(() => props.onRange?.(first, last), [first, last, count]);
  useLayoutEffect(() => {
    if (active < 0 || active >= count) return;
    const { scrollTop, clientHeight } = box.current!;
    const top = active * row;
    const at = scrollTop * scale;
    if (top < at) box.current!.scrollTop = top / scale;
    else if (top + row > at + clientHeight) box.current!.scrollTop = (top + row - clientHeight) / scale;
  }, [active]);

  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (props.onKey?.(event, active)) {
      event.preventDefault();
      return;
    }
    const page = Math.max(1, Math.floor(view.height / row) - 1);
    const steps: Record<string, number> = {
      ArrowDown: active + 1,
      j: active + 1,
      ArrowUp: active - 1,
      k: active - 1,
      PageDown: active + page,
      PageUp: active - page,
      Home: 0,
      End: count - 1,
    };
    if (event.key === "Enter" && active >= 0) props.onOpen?.(active);
    else if (event.key in steps) props.onActive?.(Math.max(0, Math.min(count - 1, steps[event.key])));
    else return;
    event.preventDefault();
  };

  const rows: ComponentChildren[] = [];
  for (let i = first; i < last; i++) {
    rows.push(
      <div
        key={i}
        id={`${id}-${i}`}
        role={props.role === "tree" ? "treeitem" : "option"}
        aria-setsize={count}
        aria-posinset={i + 1}
        {...props.rowProps?.(i)}
        class={classes("vrow", i === active && "active", props.rowProps?.(i).class as string | undefined)}
        style={{ height: `${row}px`, transform: `translateY(${i * row - offset + view.top}px)` }}
        onClick={() => {
          props.onActive?.(i);
          props.onOpen?.(i);
        }}
      >
        {props.render(i)}
      </div>,
    );
  }
  return (
    <div
      ref={box}
      class={classes("vlist", props.class)}
      role={props.role ?? "listbox"}
      aria-label={props.label}
      aria-multiselectable={props.many}
      aria-activedescendant={active >= first && active < last ? `${id}-${active}` : undefined}
      tabIndex={0}
      onScroll={measure}
      onKeyDown={keys}
    >
      <div style={{ height: `${height}px`, position: "relative" }}>{rows}</div>
    </div>
  );
}
