// Several requests at once, whose number may change: for curves drawn over each other.

import { useContext, useEffect, useState } from "preact/hooks";
import { address, asRefusal, get, LiveContext, useAsking } from "./api";
import type { Params } from "./router";
import type { Refusal } from "./types";

export interface Question {
  id: string; // its subject; the answer to an earlier request with this id is shown until the new one arrives
  path: string;
  params: Params;
}

export interface Held<T> {
  data: T | null;
  error: Refusal | null;
}

export function useAnswers<T>(questions: Question[], options: { live?: boolean } = {}): Map<string, Held<T>> {
  const { version } = useContext(LiveContext);
  const [held, setHeld] = useState(() => new Map<string, Held<T>>());
  const asked = JSON.stringify(questions.map(({ id, path, params }) => [id, address(path, params)]));
  useAsking(asked, String(options.live ? version : 0), async (signal) => {
    const keep = (id: string, change: (old: Held<T> | undefined) => Held<T>) => {
      if (!signal.aborted) setHeld((old) => new Map(old).set(id, change(old.get(id))));
    };
    const one = async ({ id, path, params }: Question) => {
      try {
        const data = await get<T>(path, params, signal);
        keep(id, () => ({ data, error: null }));
      } catch (problem) {
        keep(id, (old) => ({ data: old?.data ?? null, error: asRefusal(problem) }));
      }
    };
    await Promise.all(questions.map(one));
  });
  return held;
}

/** The value, updated only after it has not changed for `ms`. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    if (Object.is(value, settled)) return;
    const timer = window.setTimeout(() => setSettled(value), ms);
    return () => window.clearTimeout(timer);
  }, [value]);
  return settled;
}
