import { useEffect, useState } from "preact/hooks";
import { layOut, type Laid, type WorkerLike } from "../../layout/deadline";
import LayoutWorker from "../../layout/worker?worker&inline";
import type { View } from "./groups";
import { layoutInput, sizeOf } from "./measures";

/** A drawing belongs to the view it was made for. */
export interface Drawn extends Laid {
  view: View;
}

const ROOM = 20; // px that text may grow before its box must

/** Whether a view has the boxes and links that were drawn, and what stands in them has room there. */
export function stillFits({ layout, view: old }: Drawn, view: View): boolean {
  if (!sameThings(old, view)) return false;
  const [before, now] = [layoutInput(old), layoutInput(view)];
  const boxes = view.boxes.every((box) => sizeOf(box).width <= (layout.boxes[box.id]?.width ?? 0) + ROOM);
  return boxes && now.links.every((link, index) => link.text <= before.links[index].text + ROOM);
}

/** Whether both are of the same boxes, frames and links, whatever is said of them. */
export function sameThings(one: View, other: View): boolean {
  const told = ({ boxes, frames, links }: View) =>
    JSON.stringify([boxes.map(({ id }) => id), frames.map(({ path }) => path), links.map(({ from, to }) => [from, to])]);
  return one === other || told(one) === told(other);
}

/** The layout of a view; while a new one is made, the last one stays. */
export function useLayout(view: View): { drawn: Drawn | null; busy: boolean } {
  const [drawn, setDrawn] = useState<Drawn | null>(null);
  useEffect(() => {
    if (drawn && stillFits(drawn, view)) {
      setDrawn({ ...drawn, view }); // of a run that goes on, mostly numbers change: nothing moves for them
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
