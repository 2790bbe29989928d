// Two runs that part at step 7.

import type { Answers, Ask } from "../mock.ts";
import type { Agreement, Diff, Difference, DiffSide } from "../src/difftypes.ts";

const TOTAL = 128;

function side(value: string): DiffSide {
  const file = "/home/me/spirals/train.py";
  const call = {
    function: "step",
    module: "train",
    file,
    line: 20,
    shard: "s",
    id: 7,
    rank: 0,
    thread: "MainThread",
    stage: null,
    step: 7,
    start: 0.2,
    path: ["main", "train"],
  };
  return { name: "loss", value, file, line: 30, call };
}

function difference(index: number, noise: boolean): Difference {
  return {
    index,
    name: index % 2 ? "grad" : "loss",
    what: "change",
    function: "step",
    step: 7 + index,
    time: 0.2 + index / 100,
    held: "",
    a: side("1.37202"),
    b: side("1.37213"),
    inputs: [
      { name: "batch", a: "float32 (64, 784)", b: "float32 (64, 784)", equal: true },
      { name: "lr", a: "0.1", b: "0.1", equal: true },
    ],
    measure: {
      max_abs: 0.00011089 * (index + 1),
      max_rel: 8.08e-5,
      max_ulp: 499406562701,
      cosine: 1,
      count: 1,
      inexact: 1,
      total: 1,
    },
    noise: noise ? 5.19e-10 : null,
    multiple: noise ? 213729.7 : null,
    role: index === 0 ? "producer" : "propagator",
    reason: index === 0 ? "its inputs are equal: `batch`, `lr`" : "`loss` differs before it in the same call",
  };
}

function node(
  label: string,
  kind: Agreement["kind"],
  compared: number,
  differ: number,
  children: Agreement[] = [],
): Agreement {
  return { label, path: label, kind, compared, differ, worst: differ ? 0.00086 : 0, children };
}

function diff({ q }: Ask): Diff {
  const [offset, limit, noise] = [
    Number(q.get("offset") ?? 0),
    Number(q.get("limit") ?? 100),
    q.get("reference") !== null,
  ];
  const run = (sign: string) => ({ path: `/${sign}`, name: q.get(sign) ?? "", status: "finished", problems: [] });
  const count = Math.max(0, Math.min(limit, TOTAL - offset));
  return {
    runs: { a: run("a"), b: run("b"), reference: noise ? run("reference") : null },
    settings: {
      rtol: null,
      atol: null,
      ulp: null,
      defaults: noise ? null : { float32: { rtol: 1.3e-6, atol: 1e-5 } },
      noise: noise ? 3 : null,
      ignore: [],
      only: [],
      map: {},
      common: false,
    },
    summary: {
      equal: false,
      compared: 281,
      identical: 83,
      within: 70,
      within_worst: 9e-9,
      differ: TOTAL,
      by_hash: 2,
      by_summary: 0,
      not_compared: 1,
      only_in_a: { calls: 0, values: 0 },
      only_in_b: { calls: 20, values: 40 },
      calls: 41,
    },
    first: difference(0, noise),
    differences: {
      total: TOTAL,
      offset,
      limit,
      items: Array.from({ length: count }, (_, i) => difference(offset + i, noise)),
    },
    only_in_a: [],
    only_in_b: [
      {
        what: "call",
        name: "extra",
        function: "step",
        calls: 20,
        values: 40,
        step: 0,
        file: "/home/me/spirals/train.py",
        line: 40,
      },
    ],
    not_compared: [{ name: "model", function: "main", count: 1, why: "only its type was kept" }],
    renamed: {},
    tree: {
      places: node("run", "run", 281, TOTAL, [
        node("main", "function", 41, 26, [node("loss", "value", 20, 13), node("w", "value", 21, 13)]),
        node("load", "function", 60, 0, [node("path (argument)", "value", 60, 0)]),
      ]),
      steps: node("steps", "steps", 40, 26, [node("0 … 6", "step", 14, 0), node("7 … 19", "step", 26, 26)]),
    },
    notes: [],
  };
}

export const answers: Answers = { diff };
