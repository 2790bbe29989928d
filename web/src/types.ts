// The answers of the server, which a report also contains: one contract. `src/clew/page` makes them, and `tests/page`
// checks them against this file. Text is plain text, never markup. Numbers that JSON cannot represent (NaN, Inf) are
// null in `y` and similar arrays, and are listed in `marks`.

export type RunId = string; // opaque, from `Runs`
export type CallId = string; // "shard:number", opaque

export type Status = "running" | "finished" | "incomplete" | "failed" | "interrupted" | "exited" | "killed";

/** A value for display; `text` is one line, which the server cuts if it is long (`cut` says how much is missing). */
export interface ValueBox {
  text: string;
  type: string;
  kept: "full" | "part" | "summary" | "opaque";
  why?: string; // why it was not kept in full
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
  duration: number | null; // seconds; so far, if the run is still going on
  status: Status;
  error: string | null;
  size: number; // bytes
  path: string;
  problem: string | null; // why it cannot be opened, if it cannot
}

export interface Runs {
  base: string;
  runs: RunRow[]; // newest first
}

// POST /api/run/ID/edit {name?: string, tags?: Record<string, string>} → RunRow
// POST /api/run/ID/delete {name: string}  (the run's name, typed or confirmed) → {deleted: true}

// ---- GET /api/run/ID ------------------------------------------------------------------------------------------------

export interface Overview {
  run: RunRow;
  version: number; // grows whenever the run does
  counts: { changes: number; calls: number; names: number; functions: number; threads: number; ranks: number };
  names: NameRow[]; // the first 1,000 in order of first change; `counts.names` is the total
  functions: FunctionRow[]; // the 1,000 with the longest time; `counts.functions` is the total
  pages: { series: boolean; tree: boolean; pipeline: boolean; graph: boolean };
  ledger: LedgerLine[];
  problems: string[];
  meta: Record<string, unknown>; // run.json as it is
}

export interface NameRow {
  name: string;
  kind: "number" | "tensor" | "value"; // determined by its first value
  count: number;
  functions: string[]; // a few of the functions in which it was recorded
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
// `search`: words that must all occur in the name, ignoring case; or a pattern with * and ?

export interface Names {
  found: number;
  offset: number;
  names: NameRow[];
  next: number | null; // the offset to ask for next
}

// ---- GET /api/run/ID/version → requested every second or so while a run goes on --------------------------------------

export interface Version {
  version: number;
  status: Status;
}

// ---- GET /api/run/ID/series?name=&axis=step|time|index&from=&to=&px= --------------------------------------------------

export type Axis = "step" | "time" | "index";

export interface Curve {
  name: string;
  axis: Axis; // "index" if the steps are not numbers
  total: number; // points in the whole series
  inside: number; // points between from and to
  range: [number, number] | null; // of x over the whole series
  reduced: boolean; // each point stands for several; then `low` and `high` are present
  x: number[];
  y: (number | null)[]; // the value; if reduced, the last one of each bucket
  low?: (number | null)[];
  high?: (number | null)[];
  marks: Mark[]; // at most 200
  marksTotal: number;
}

export interface Mark {
  x: number;
  what: "nan" | "inf" | "-inf" | "deleted" | "other"; // "other": not a number; see `text`
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
  code: string | null; // the source line, if the run holds it
  call: CallId | null;
}

// ---- GET /api/run/ID/tensors?name=&axis=&from=&to=&px= -----------------------------------------------------------------

export interface TensorCurve {
  name: string;
  axis: Axis;
  total: number;
  inside: number;
  range: [number, number] | null;
  reduced: boolean; // only every n-th tensor is included; n is `every`
  every: number;
  x: number[];
  index: number[]; // in the series, for `slice`
  min: (number | null)[];
  max: (number | null)[];
  mean: (number | null)[];
  std: (number | null)[];
  nan: number[]; // number of NaN in each
  inf: number[];
  full: boolean[]; // whether the values were kept
  shapes: string[]; // the distinct ones: "float32 (64, 10)"
}

// ---- GET /api/run/ID/histogram?name=&axis=&columns=&bins= --------------------------------------------------------------

export interface Histogram {
  x: number[];
  index: number[];
  edges: number[]; // bins + 1
  counts: number[][]; // one row per x
  left_out: number; // tensors whose values were not kept, or that lie between the columns
  note: string; // a remark for display, or ""
}

// ---- GET /api/run/ID/slice?name=&index=&at=&px=  or &call=CALL&value=NAME ---------------------------------------------
// `value`: the name of an argument, or "return" for the result of the call
// `at`: one entry per dimension, a number or ":"; exactly two ":" (one for a vector, none for a scalar)

export interface Slice {
  shape: number[];
  dtype: string;
  at: (number | ":")[];
  rows: number; // of `data`
  cols: number;
  data: (number | null)[]; // row by row
  reduced: boolean; // each cell is the mean of several
  low: number | null; // finite minimum and maximum of the whole tensor, for one colour scale over all slices
  high: number | null;
  picture: string | null; // if it looks like an image
  value: ValueBox;
}

// ---- GET /api/run/ID/tree?parent=&function=&name=&errors=&slow=&stage=&offset=&limit=&fold= ----------------------------

export interface Branch {
  total: number; // siblings under the parent, counting those in folds
  offset: number;
  nodes: TreeNode[];
  next: number | null; // the offset to ask for next
  found: number | null; // with a filter: the number of matching calls in the whole run
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
  inside: number; // number of calls and changes in it
  fits: boolean; // false: shown only because something in it matches the filter
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
  kind: "fold"; // repeated siblings; request offset, limit and fold=0 to open it
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
  parents: { id: CallId; function: string }[]; // outermost first
  callers: Place[]; // the stack of callers, nearest first
}

// ---- GET /api/run/ID/source?call=&at= ------------------------------------------------------------------------------------

export interface Source {
  file: string;
  first: number; // the line number of lines[0]
  lines: string[]; // the code as it was when recorded
  missing: string | null; // why there is no source: "the run does not hold it"
  total: number; // number of changes in this call: the length of the slider
  at: number; // 0 … total: the number of changes that have happened
  values: LineValue[];
}

export interface LineValue {
  line: number;
  name: string;
  value: ValueBox;
  nth: number; // the ordinal of this value among those at this line
  of: number;
  now: boolean; // whether the slider is at this change
}

// ---- GET /api/run/ID/pipeline?trace=&offset=&limit= (of items; 60 by default) --------------------------------------------------------------------------------------

export interface Pipeline {
  traces: number;
  trace: number;
  head: string[]; // "3 items, 4 stages, 14 calls in 120 ms", what was altered, notes, the error
  stages: { name: string; calls: number }[];
  total: number; // number of items in the trace; `items` and `cells` start at `offset`
  offset: number;
  items: { id: string; source: string; loss: string | null; files: string[] }[];
  cells: Cell[]; // an item in a stage; several if the stage handled it more than once
  findings: Finding[];
}

export interface Cell {
  item: number; // index in `items`
  stage: number;
  function: string;
  place: Place | null;
  seconds: number | null;
  where: string; // "worker 1"
  row: number | null; // in a batch
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
  what: "graph" | "calls"; // recorded operators; without any, which function called which
  graphs: number;
  which: number;
  nodes: GraphNode[];
  edges: GraphEdge[];
}

export interface GraphNode {
  id: string;
  label: string;
  group: string; // dotted module path; initially collapsed
  kind: string; // "input", "operator", "function", "constant", "guard", "output", ...
  place: Place | null;
  seconds: number | null;
  calls: number | null;
  value: ValueBox | null; // its result, if recorded
  call: CallId | null;
}

export interface GraphEdge {
  from: string;
  to: string;
  label: string; // name of the argument, shape of the value
}

// ---- GET /api/diff?a=&b=&reference=&rtol=&atol=&ulp=&only=&ignore= → the result of Diff.to_dict() -----------------------------
// ---- any error: status 4xx or 5xx with this body -------------------------------------------------------------------------------------

export interface Refusal {
  error: string; // what was wrong
  remedy: string; // what to do
  slug: string;
}
