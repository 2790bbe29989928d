import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

/** The width of an element in steps of 200 px, so that small changes of size send no new requests. */
export function useWidth(box: RefObject<HTMLElement | null>): number {
  const [px, setPx] = useState(() => rounded(window.innerWidth));
  useLayoutEffect(() => {
    const measure = () => box.current && setPx(rounded(box.current.clientWidth));
    measure();
    if (typeof ResizeObserver === "undefined" || !box.current) return;
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return px;
}

function rounded(px: number): number {
  return Math.max(400, Math.ceil(px / 200) * 200);
}
