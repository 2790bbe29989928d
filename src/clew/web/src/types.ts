// What the server answers, and what a report holds inside: one contract. `src/clew/page` makes these, `tests/page`
// holds it to them. Text is plain text, never markup. A number that JSON cannot say (NaN, Inf) is null in `y` and its
// like, and is told in `marks`.

export type RunId = string; // opaque: as `Runs` gives it
export type CallId = string; // "shard:number", opaque

export type Status = "running" | "finished" | "incomplete" | "failed" | "interrupted" | "exited" | "killed";

/** A value as people see it; `text` is one line, cut by the server where it is long (`cut` says how much is left). */
export interface ValueBox {
  text: string;
  type: string;
  kept: "full" | "part" | "summary" | "opaque";
  why?: string; // why not in full
  cut?: number; // characters left out of `text`
  shape?: number[];
  dtype?: string;
  device?: string;
  stats?: Stats;
  picture?: string; // a data: URI of a small PNG, for images, masks and sounds
}

export interface Stats {
  min?: number | null;
  max?: number | null;
  mean?: number | null;
  std?: number | null;
  nan?: number;
  inf?: number;
  norm?: number | null;
  zeros?: number | null;
}

export interface Named {
  name: string;
  value: ValueBox;
}

export interface Place {
  file: string;
  line: number;
  function: string;
}

// ---- GET /api/runs ---------------------------------------------------------------------------------------------------

export interface RunRow {
  id: RunId;
  name: string;
  tags: Record<string, string>;
  started: number | null; // seconds since 1970
  duration: number | null; // seconds; of a run that goes on: so far
  status: Status;
  error: string | null;
  size: number; // bytes
  path: string;
  problem: string | null; // why it cannot be opened, if so
}

export interface Runs {
  base: string;
  runs: RunRow[]; // the newest first
}

// POST /api/run/ID/edit {name?: string, tags?: Record<string, string>} → RunRow
// POST /api/run/ID/delete {name: string}  (the run's name, typed or confirmed) → {deleted: true}

// ---- GET /api/run/ID ------------------------------------------------------------------------------------------------

export interface Overview {
  run: RunRow;
  version: number; // grows with what is written
  counts: { changes: number; calls: number; names: number; functions: number; threads: number; ranks: number };
  names: NameRow[]; // the first 1,000 in the order they were first seen; `counts.names` says of how many
  functions: FunctionRow[]; // the longest 1,000; `counts.functions` says of how many
  pages: { series: boolean; tree: boolean; pipeline: boolean; graph: boolean };
  ledger: LedgerLine[];
  problems: string[];
  meta: Record<string, unknown>; // run.json as it is
}

export interface NameRow {
  name: string;
  kind: "number" | "tensor" | "value"; // by what it held first
  count: number;
  functions: string[]; // at most a few; where it was recorded
}

export interface FunctionRow {
  function: string;
  file: string;
  line: number;
  calls: number;
  seconds: number;
  errors: number;
}

export interface LedgerLine {
  kind: string;
  subject: string;
  text: string;
}

// ---- GET /api/run/ID/names?search=&offset=&limit= → for runs with more names than `Overview` holds ---------------------
// `search`: words that must all be in the name, in any case; or a pattern with * and ?

export interface Names {
  found: number;
  offset: number;
  names: NameRow[];
  next: number | null; // the offset to ask for next
}

// ---- GET /api/run/ID/version → asked every second or so while a run goes on ------------------------------------------

export interface Version {
  version: number;
  status: Status;
}

// ---- GET /api/run/ID/series?name=&axis=step|time|index&from=&to=&px= --------------------------------------------------

export type Axis = "step" | "time" | "index";

export interface Curve {
  name: string;
  axis: Axis; // "index" where the steps are no numbers
  total: number; // points of the whole series
  inside: number; // points between from and to
  range: [number, number] | null; // of x, of the whole series
  reduced: boolean; // each point stands for several: `low` and `high` are then given
  x: number[];
  y: (number | null)[]; // the value; where reduced, the last one of each bucket
  low?: (number | null)[];
  high?: (number | null)[];
  marks: Mark[]; // at most 200
  marksTotal: number;
}

export interface Mark {
  x: number;
  what: "nan" | "inf" | "-inf" | "deleted" | "other"; // "other": no number; `text` says what
  text?: string;
}

// ---- GET /api/run/ID/point?name=&axis=&x=  (the nearest) or &index= ---------------------------------------------------

export interface Point {
  name: string;
  index: number; // in its series
  total: number;
  step: string | null;
  time: number; // seconds since the run began
  value: ValueBox;
  place: Place;
  code: string | null; // the line there, if its file can be read
  call: CallId | null;
}

// ---- GET /api/run/ID/tensors?name=&axis=&from=&to=&px= -----------------------------------------------------------------

export interface TensorCurve {
  name: string;
  axis: Axis;
  total: number;
  inside: number;
  range: [number, number] | null;
  reduced: boolean; // some of the tensors are left out: `every` says one in how many are shown
  every: number;
  x: number[];
  index: number[]; // in the series: for `slice`
  min: (number | null)[];
  max: (number | null)[];
  mean: (number | null)[];
  std: (number | null)[];
  nan: number[]; // how many NaN in each
  inf: number[];
  full: boolean[]; // whether its values were kept
  shapes: string[]; // the distinct ones: "float32 (64, 10)"
}

// ---- GET /api/run/ID/histogram?name=&axis=&columns=&bins= --------------------------------------------------------------

export interface Histogram {
  x: number[];
  index: number[];
  edges: number[]; // bins + 1
  counts: number[][]; // a row for each x
  left_out: number; // tensors whose values were not kept, or that are between the columns
  note: string; // for people, "" if there is nothing to say
}

// ---- GET /api/run/ID/slice?name=&index=&at=&px=  or &call=CALL&value=NAME ---------------------------------------------
// `value`: the name of an argument, or "return" for what the call gave
// `at`: one entry a dimension, a number or ":", exactly two ":" (one for a vector, none for a scalar)

export interface Slice {
  shape: number[];
  dtype: string;
  at: (number | ":")[];
  rows: number; // of `data`
  cols: number;
  data: (number | null)[]; // row by row
  reduced: boolean; // each cell is the mean of several
  low: number | null; // finite minimum and maximum of the whole tensor: for one scale over all slices
  high: number | null;
  picture: string | null; // where it looks like an image
  value: ValueBox;
}

// ---- GET /api/run/ID/tree?parent=&function=&name=&errors=&slow=&stage=&offset=&limit=&fold= ----------------------------

export interface Branch {
  total: number; // of what is under the parent, folds not counted as one
  offset: number;
  nodes: TreeNode[];
  next: number | null; // the offset to ask for next
  found: number | null; // with a filter: how many calls fit in the whole run
}

export type TreeNode = CallNode | ChangeNode | FoldNode;

export interface CallNode {
  kind: "call";
  id: CallId;
  function: string;
  file: string;
  line: number;
  start: number; // seconds since the run began
  duration: number | null;
  error: string | null;
  thread: string; // "" for the main thread
  rank: number;
  step: string | null;
  stage: string | null;
  args: Named[];
  result: ValueBox | null;
  inside: number; // calls and changes in it
  fits: boolean; // false: shown only because something in it fits the filter
}

export interface ChangeNode {
  kind: "change";
  name: string;
  line: number;
  step: string | null;
  index: number; // in its series
  value: ValueBox;
}

export interface FoldNode {
  kind: "fold"; // siblings that repeat: ask again with offset, limit and fold=0 to open it
  offset: number;
  count: number; // siblings
  times: number; // repetitions of the pattern
  text: string; // "linear, relu ×12"
  seconds: number;
  errors: number;
}

// ---- GET /api/run/ID/call?call= ----------------------------------------------------------------------------------------

export interface CallDetail {
  call: CallNode;
  parents: { id: CallId; function: string }[]; // the outermost first
  callers: Place[]; // how it was reached, the nearest first
}

// ---- GET /api/run/ID/source?call=&at= ------------------------------------------------------------------------------------

export interface Source {
  file: string;
  first: number; // the line number of lines[0]
  lines: string[]; // as the code was when it was recorded
  missing: string | null; // why there is no text: "the run does not hold it"
  total: number; // changes in this call: the slider's length
  at: number; // 0 … total: after so many changes
  values: LineValue[];
}

export interface LineValue {
  line: number;
  name: string;
  value: ValueBox;
  nth: number; // this is the nth value recorded at this line
  of: number;
  now: boolean; // the change the slider stands on
}

// ---- GET /api/run/ID/pipeline?trace=&offset=&limit= (of items; 60 unless told) --------------------------------------------------------------------------------------

export interface Pipeline {
  traces: number;
  trace: number;
  head: string[]; // "3 items, 4 stages, 14 calls in 120 ms", what was altered, notes, the error
  stages: { name: string; calls: number }[];
  total: number; // items of the trace; `items` and `cells` hold those from `offset` on
  offset: number;
  items: { id: string; source: string; loss: string | null; files: string[] }[];
  cells: Cell[]; // what an item was in a stage; several where a stage saw it more than once
  findings: Finding[];
}

export interface Cell {
  item: number; // its place in `items`
  stage: number;
  function: string;
  place: Place | null;
  seconds: number | null;
  where: string; // "worker 1"
  row: number | null; // of a batch
  ins: Named[];
  outs: Named[];
}

export interface Finding {
  kind: string;
  stage: string | null;
  text: string;
  remedy: string;
}

// ---- GET /api/run/ID/graph?which= --------------------------------------------------------------------------------------------

export interface Graph {
  what: "graph" | "calls"; // recorded operators; or, where there are none, which function called which
  graphs: number;
  which: number;
  nodes: GraphNode[];
  edges: GraphEdge[];
}

export interface GraphNode {
  id: string;
  label: string;
  group: string; // dotted module path; collapsed at first
  kind: string; // "input", "operator", "function", "constant", "guard", "output", ...
  place: Place | null;
  seconds: number | null;
  calls: number | null;
  value: ValueBox | null; // what it gave, where the run has it
  call: CallId | null;
}

export interface GraphEdge {
  from: string;
  to: string;
  label: string; // name of the argument, shape of what went along
}

// ---- GET /api/diff?a=&b=&reference=&rtol=&atol=&ulp=&only=&ignore= → what Diff.to_dict() gives --------------------------------
// ---- any error: status 4xx or 5xx and this -------------------------------------------------------------------------------------

export interface Refusal {
  error: string; // what was wrong
  remedy: string; // what to do
  slug: string;
}
