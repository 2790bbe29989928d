import type { Axis, Curve, Histogram, Mark, Point, Slice, TensorCurve } from "../src/types.ts";
import type { Answers, Ask } from "../mock.ts";

const BEGUN = Date.now();
const TOTAL = 3_000_000;

function noise(i: number): number {
  const x = Math.sin(i * 12.9898) * 43758.5453;
  return x - Math.floor(x) - 0.5;
}

function valueOf(name: string, run: string, i: number): number | null {
  const t = i / TOTAL;
  const shift = run.length % 5;
  if (name === "never") return null;
  if (name === "flat") return 0.25;
  if (name === "accuracy") return 0.97 - 0.6 * Math.exp(-t * (5 + shift)) + noise(i) * 0.05;
  if (name === "rate") return 1e-3 * 0.5 * (1 + Math.cos(Math.PI * Math.min(1, t))) + 1e-8;
  if (t > 0.42 && t < 0.423) return null;
  return (
    2.3 * Math.exp(-t * (6 - shift)) +
    0.12 +
    (noise(i) + noise(i * 7)) * 0.18 * Math.exp(-t) +
    (t > 0.6 && t < 0.602 ? 3 : 0)
  );
}

function scaleOf(axis: Axis): number {
  return axis === "time" ? 1800 / TOTAL : axis === "step" ? 0.1 : 1;
}

function curve({ q, run }: Ask): Curve {
  const name = q.get("name")!;
  const axis = (q.get("axis") ?? "step") as Axis;
  const px = Number(q.get("px") ?? 800);
  const scale = scaleOf(axis);
  const total = run.endsWith("3")
    ? Math.min(TOTAL, 900_000 + (Date.now() - BEGUN) * 20)
    : name.startsWith("<")
      ? 20
      : TOTAL;
  const first = Math.max(0, Math.floor(Number(q.get("from") ?? 0) / scale));
  const last = Math.min(total, Math.ceil((q.has("to") ? Number(q.get("to")) : Infinity) / scale) + 1);
  const inside = Math.max(0, last - first);
  const size = Math.max(1, Math.ceil(inside / px));
  const out = {
    x: [] as number[],
    y: [] as (number | null)[],
    low: [] as (number | null)[],
    high: [] as (number | null)[],
  };
  for (let at = first; at < last; at += size) {
    const picked = Array.from({ length: Math.min(size, 40) }, (_, k) =>
      Math.min(last - 1, at + Math.floor((k * size) / 40)),
    );
    const values = picked.map((i) => valueOf(name, run, i)).filter((value) => value !== null);
    out.x.push(Math.min(last - 1, at + size - 1) * scale);
    out.y.push(values.at(-1) ?? null);
    out.low.push(values.length ? Math.min(...values) : null);
    out.high.push(values.length ? Math.max(...values) : null);
  }
  const marks: Mark[] =
    name === "loss" ? [0.42, 0.421, 0.7].map((t, i) => ({ x: t * TOTAL * scale, what: i === 2 ? "inf" : "nan" })) : [];
  const range: [number, number] = [0, (total - 1) * scale];
  const reduced = size > 1;
  const { low, high, ...rest } = out;
  const band = reduced ? { low, high } : {};
  return { name, axis, total, inside, range, reduced, ...rest, ...band, marks, marksTotal: marks.length };
}

function point({ q }: Ask): Point {
  const index = q.has("index")
    ? Number(q.get("index"))
    : Math.round(Number(q.get("x")) / scaleOf(q.get("axis") as Axis));
  const value = { text: "0.31250000000000044", type: "float", kept: "full" as const };
  const place = { file: "/home/me/spirals/train.py", line: 48, function: "train" };
  return {
    name: q.get("name")!,
    index,
    total: TOTAL,
    step: String(Math.floor(index / 10)),
    time: index * scaleOf("time"),
    value,
    place,
    code: "loss = criterion(model(x), y)",
    call: "0:41",
  };
}

const COUNT = 400;

function tensors({ q }: Ask): TensorCurve {
  const axis = (q.get("axis") ?? "step") as Axis;
  const empty = q.get("name") === "empty";
  const index = Array.from({ length: empty ? 0 : COUNT }, (_, i) => i);
  const spread = (i: number) => 0.4 + 0.5 * Math.exp(-i / 90) + 0.03 * noise(i);
  return {
    name: q.get("name")!,
    axis,
    total: index.length,
    inside: index.length,
    range: empty ? null : [0, COUNT - 1],
    reduced: false,
    every: 1,
    x: index,
    index,
    min: index.map((i) => (i === 120 ? null : -2.6 * spread(i) + noise(i) * 0.1)),
    max: index.map((i) => (i === 120 ? null : 2.8 * spread(i) + noise(i + 9) * 0.1)),
    mean: index.map((i) => (i === 120 ? null : 0.08 * Math.sin(i / 40))),
    std: index.map((i) => (i === 120 ? null : spread(i))),
    nan: index.map((i) => (i === 120 ? 640 : i > 300 && i < 304 ? 2 : 0)),
    inf: index.map(() => 0),
    full: index.map((i) => i % 2 === 0),
    shapes: ["float32 (16, 3, 28, 28)"],
  };
}

function histogram({ q }: Ask): Histogram {
  if (q.get("name") === "empty")
    return { x: [], index: [], edges: [], counts: [], left_out: 0, note: "There are no values." };
  const columns = Math.min(Number(q.get("columns") ?? 100), COUNT / 2);
  const bins = Number(q.get("bins") ?? 40);
  const x = Array.from({ length: columns }, (_, i) => Math.floor((i * COUNT) / columns / 2) * 2);
  const edges = Array.from({ length: bins + 1 }, (_, i) => -3 + (6 * i) / bins);
  const width = (i: number) => 0.4 + 0.5 * Math.exp(-i / 90);
  const counts = x.map((i) =>
    edges
      .slice(1)
      .map((edge) => Math.round(4000 * Math.exp(-0.5 * ((edge - 0.05 - 0.2 * Math.sin(i / 40)) / width(i)) ** 2))),
  );
  return {
    x,
    index: x,
    edges,
    counts,
    left_out: 200,
    note: "200 of 400 tensors were kept as summaries: they are not counted here.",
  };
}

function slice({ q }: Ask): Slice {
  const shape = q.get("name") === "model.fc.bias" ? [64] : [16, 3, 28, 28];
  const asked = q
    .get("at")
    ?.split(",")
    .map((each) => (each === ":" ? (":" as const) : Number(each)));
  const at = asked ?? (shape.length === 1 ? [":" as const] : [0, 0, ":" as const, ":" as const]);
  const [rows, cols] = shape.length === 1 ? [1, 64] : [28, 28];
  const seed =
    Number(q.get("index") ?? 0) + at.reduce<number>((sum, each, i) => sum + (each === ":" ? 0 : each * (i + 3)), 0);
  const data = Array.from({ length: rows * cols }, (_, i) => {
    const [r, c] = [Math.floor(i / cols), i % cols];
    return i === 30 ? null : Math.sin((r + seed) / 4) * Math.cos((c - seed) / 5) * 1.6 + noise(i + seed) * 0.2;
  });
  const stats = { min: -1.7, max: 1.69, mean: 0.012, std: 0.81, nan: 1, inf: 0 };
  const value = {
    text: "tensor float32 (16, 3, 28, 28)",
    type: "torch.Tensor",
    kept: "full" as const,
    shape,
    dtype: "float32",
    stats,
  };
  return { shape, dtype: "float32", at, rows, cols, data, reduced: false, low: -1.7, high: 1.69, picture: null, value };
}

export const answers: Answers = { series: curve, point, tensors, histogram, slice };
