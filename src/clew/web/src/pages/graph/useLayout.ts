import { useEffect, useState } from "preact/hooks";
import { layOut, type Laid, type WorkerLike } from "../../layout/deadline";
import LayoutWorker from "../../layout/worker?worker&inline";
import type { View } from "./groups";
import { layoutInput } from "./measures";

/** A drawing belongs to the view it was made for. */
export interface Drawn extends Laid {
  view: View;
}

/** The layout of a view; while a new one is made, the last one stays. */
export function useLayout(view: View): { drawn: Drawn | null; busy: boolean } {
  const [drawn, setDrawn] = useState<Drawn | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    const makeWorker = () => new LayoutWorker() as unknown as WorkerLike;
    void layOut(layoutInput(view), makeWorker, undefined, stop.signal).then((laid) => {
      if (!stop.signal.aborted) setDrawn({ ...laid, view });
    });
    return () => stop.abort();
  }, [view]);
  return { drawn, busy: drawn?.view !== view };
}
