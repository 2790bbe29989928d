import { useEffect, useState } from "preact/hooks";
import { layOut, type Laid, type WorkerLike } from "../../layout/deadline";
import LayoutWorker from "../../layout/worker?worker&inline";
import type { View } from "./groups";
import { layoutInput, sizeOf } from "./measures";

/** A layout with the view it was computed for. */
export interface Drawn extends Laid {
  view: View;
}

const ROOM = 20; // px that a text may grow before its box must grow

/** Whether a drawing fits a view: it has the same boxes and links, with enough room for their texts. */
export function stillFits({ layout, view: old }: Drawn, view: View): boolean {
  if (!sameThings(old, view)) return false;
  const [before, now] = [layoutInput(old), layoutInput(view)];
  const boxes = view.boxes.every((box) => sizeOf(box).width <= (layout.boxes[box.id]?.width ?? 0) + ROOM);
  return boxes && now.links.every((link, index) => link.text <= before.links[index].text + ROOM);
}

/** Whether two views have the same boxes, frames and links, regardless of their texts. */
export function sameThings(one: View, other: View): boolean {
  const outline = ({ boxes, frames, links }: View) =>
    JSON.stringify([boxes.map(({ id }) => id), frames.map(({ path }) => path), links.map(({ from, to }) => [from, to])]);
  return one === other || outline(one) === outline(other);
}

/** The layout of a view; while a new one is computed, the previous one stays. */
export function useLayout(view: View): { drawn: Drawn | null; busy: boolean } {
  const [drawn, setDrawn] = useState<Drawn | null>(null);
  useEffect(() => {
    if (drawn && stillFits(drawn, view)) {
      setDrawn({ ...drawn, view }); // in a running run, mostly numbers change, which moves nothing
      return;
    }
    const stop = new AbortController();
    const makeWorker = () => new LayoutWorker() as unknown as WorkerLike;
    void layOut(layoutInput(view), makeWorker, undefined, stop.signal).then((laid) => {
      if (!stop.signal.aborted) setDrawn({ ...laid, view });
    });
    return () => stop.abort();
  }, [view]);
  return { drawn, busy: drawn?.view !== view };
}
