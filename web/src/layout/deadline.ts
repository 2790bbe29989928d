// Gives the good layout if it is ready in time, else the plain one with the reason.

import { layeredLayout } from "./layered";
import type { Layout, LayoutInput } from "./shapes";
import type { Reply } from "./worker";

export interface Laid {
  layout: Layout;
  plain: string | null; // why the plain layout was used
}

export interface WorkerLike {
  onmessage: ((event: MessageEvent<Reply>) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  postMessage(input: LayoutInput): void;
  terminate(): void;
}

export const DEADLINE = 2000; // milliseconds

/** `signal` cancels: the worker is stopped and the promise never settles. */
export function layOut(
  input: LayoutInput,
  makeWorker: () => WorkerLike,
  deadline = DEADLINE,
  signal?: AbortSignal,
): Promise<Laid> {
  return new Promise((resolve) => {
    const plain = (why: string): void => resolve({ layout: layeredLayout(input), plain: why });
    let worker: WorkerLike;
    try {
      worker = makeWorker();
    } catch {
      plain("This browser starts no worker for the full layout.");
      return;
    }
    const stop = (): void => {
      clearTimeout(timer);
      worker.terminate();
    };
    const timer = setTimeout(() => {
      stop();
      plain(`The full layout took longer than ${deadline / 1000} s.`);
    }, deadline);
    signal?.addEventListener("abort", stop);
    worker.onmessage = ({ data }) => {
      stop();
      if ("layout" in data) resolve({ layout: data.layout, plain: null });
      else plain("The full layout failed.");
    };
    worker.onerror = () => {
      stop();
      plain("The full layout failed.");
    };
    worker.postMessage(input);
  });
}
