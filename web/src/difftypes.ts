// The result of `Diff.to_dict()` in src/clew/compare, whose docstring is the contract.

/** NaN and infinity are texts, because JSON lacks them. */
export type Num = number | "NaN" | "Infinity" | "-Infinity";

export interface DiffRun {
  path: string;
  name: string;
  status: string;
  problems: string[];
}

export interface DiffSettings {
  rtol: number | null;
  atol: number | null;
  ulp: number | null;
  defaults: Record<string, Record<string, number>> | null; // by dtype; null if other tolerances were given
  noise: number | null; // the allowed multiple of the noise; null without a reference
  ignore: string[];
  only: string[];
  map: Record<string, string>;
  common: boolean;
}

export interface DiffSummary {
  equal: boolean;
  compared: number;
  identical: number;
  within: number;
  within_worst: Num;
  differ: number;
  by_hash: number;
  by_summary: number;
  not_compared: number;
  only_in_a: { calls: number; values: number };
  only_in_b: { calls: number; values: number };
  calls: number;
}

export interface DiffCall {
  function: string;
  module: string;
  file: string;
  line: number;
  shard: string;
  id: number;
  rank: number;
  thread: string;
  stage: string | null;
  step: unknown;
  start: number;
  path: string[]; // the enclosing functions, outermost first
}

export interface DiffSide {
  name: string;
  value: string;
  file: string;
  line: number;
  call: DiffCall | null;
}

/** How the two values differ; keys without information are absent. */
export interface Measure {
  max_abs?: Num;
  max_rel?: Num;
  max_ulp?: Num;
  cosine?: Num;
  count?: number;
  inexact?: number;
  total?: number;
  first_index?: number[];
  first_values?: unknown[];
  worst_index?: number[];
  nan?: number[];
  inf?: number[];
  nonfinite_index?: number[];
  shapes?: unknown[];
  dtypes?: string[];
  path?: string;
  note?: string;
}

export interface Difference {
  index: number;
  name: string;
  what: "change" | "argument" | "result" | "exception";
  function: string;
  step: unknown;
  time: number;
  held: "a" | "b" | "";
  a: DiffSide;
  b: DiffSide;
  inputs: { name: string; a: string; b: string; equal: boolean | null }[];
  measure: Measure;
  noise: Num | null;
  multiple: Num | null;
  role: "producer" | "propagator" | "unknown";
  reason: string;
}

export interface Missing {
  what: string;
  name: string;
  function: string;
  calls: number;
  values: number;
  step: unknown;
  file: string;
  line: number;
}

export interface Agreement {
  label: string;
  path: string;
  kind: "run" | "function" | "module" | "value" | "steps" | "step";
  compared: number;
  differ: number;
  worst: Num;
  children: Agreement[];
}

export interface Diff {
  runs: { a: DiffRun; b: DiffRun; reference: DiffRun | null };
  settings: DiffSettings;
  summary: DiffSummary;
  first: Difference | null;
  differences: { total: number; offset: number; limit: number; items: Difference[] };
  only_in_a: Missing[];
  only_in_b: Missing[];
  not_compared: { name: string; function: string; count: number; why: string }[];
  renamed: Record<string, string>;
  tree: { places: Agreement; steps: Agreement };
  notes: string[];
}
