// A comparison made up for the tests.

import type { Agreement, Diff, Difference } from "../../difftypes";

export function node(label: string, differ: number, more: Partial<Agreement> = {}): Agreement {
  return { label, path: label, kind: "value", compared: 10, differ, worst: differ ? 0.01 : 0, children: [], ...more };
}

export function difference(more: Partial<Difference> = {}): Difference {
  const side = (value: string) => ({ name: "loss", value, file: "train.py", line: 7, call: null });
  return {
    index: 0,
    name: "loss",
    what: "change",
    function: "train",
    step: 3,
    time: 0.5,
    held: "",
    a: side("1.0"),
    b: side("2.0"),
    inputs: [],
    measure: { max_abs: 1 },
    noise: null,
    multiple: null,
    role: "producer",
    reason: "",
    ...more,
  };
}

export function diff(more: Partial<Diff> = {}, summary: Partial<Diff["summary"]> = {}): Diff {
  const run = (name: string) => ({ path: `/${name}`, name, status: "finished", problems: [] });
  return {
    runs: { a: run("one"), b: run("two"), reference: null },
    settings: {
      rtol: null,
      atol: null,
      ulp: null,
      defaults: {},
      noise: null,
      ignore: [],
      only: [],
      map: {},
      common: false,
    },
    summary: {
      equal: true,
      compared: 10,
      identical: 10,
      within: 0,
      within_worst: 0,
      differ: 0,
      by_hash: 0,
      by_summary: 0,
      not_compared: 0,
      only_in_a: { calls: 0, values: 0 },
      only_in_b: { calls: 0, values: 0 },
      calls: 3,
      ...summary,
    },
    first: null,
    differences: { total: 0, offset: 0, limit: 100, items: [] },
    only_in_a: [],
    only_in_b: [],
    not_compared: [],
    renamed: {},
    tree: { places: node("run", 0), steps: node("steps", 0) },
    notes: [],
    ...more,
  };
}
