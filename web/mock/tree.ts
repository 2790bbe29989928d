// A training run of a hundred thousand steps, made up call by call as it is asked for.

import type { Answers, Ask } from "../mock.ts";
import type { Branch, CallDetail, CallNode, Source, TreeNode, ValueBox } from "../src/types.ts";

const STEPS = 100_000;

const value = (text: string, type = "float"): ValueBox => ({ text, type, kept: "full" });
const tensor = (...shape: number[]): ValueBox => ({
  text: `float32 (${shape.join(", ")}) mean 0.0123`,
  type: "torch.Tensor",
  kept: "full",
  shape,
  dtype: "float32",
  device: "cpu",
  stats: { min: -1.2, max: 3.4, mean: 0.0123, std: 0.98, nan: 0, inf: 0 },
});
const lossAt = (i: number) => value((2.3 / (1 + i / 50)).toPrecision(5));

function call(id: string, name: string, more: Partial<CallNode> = {}): CallNode {
  const place = {
    file: "/home/me/spirals/train.py",
    line: 20,
    start: 0,
    duration: 1,
    error: null,
    thread: "",
    rank: 0,
  };
  return {
    kind: "call",
    id,
    function: name,
    step: null,
    stage: null,
    args: [],
    result: null,
    inside: 0,
    fits: true,
    ...place,
    ...more,
  };
}

function step(i: number): CallNode {
  return call(`s:${i}`, "step", {
    start: i * 0.0008,
    duration: 0.0004 * (1 + Math.sin(i) ** 2),
    inside: 4,
    step: String(i),
    thread: i % 7 === 3 ? "worker-1" : "",
    rank: i % 11 === 5 ? 1 : 0,
    args: [
      { name: "batch", value: tensor(64, 784) },
      { name: "lr", value: value("0.1") },
    ],
    result: lossAt(i),
    error: i === 6 ? "ValueError: the batch holds a NaN <script>alert(1)</script>" : null,
  });
}

function inside(i: number): TreeNode[] {
  const change = (name: string, line: number, box: ValueBox): TreeNode => ({
    kind: "change",
    name,
    line,
    step: String(i),
    index: i,
    value: box,
  });
  const forward = call(`f:${i}`, "Net.forward", { start: i * 0.0008, duration: 0.0002, result: tensor(64, 10) });
  return [
    forward,
    change("loss", 30, lossAt(i)),
    change("grad", 33, tensor(784, 10)),
    change("accuracy", 34, value("0.92")),
  ];
}

const MAIN = call("m:0", "main", { duration: 83, inside: 3 });
const TRAIN = call("m:1", "train", {
  duration: 80,
  inside: STEPS,
  args: [{ name: "epochs", value: value("10", "int") }],
});
const WARM = call("m:2", "warm_up", { start: 81, duration: 1.1, inside: 600 });
const layer = (i: number) => call(`w:${i}`, i % 2 ? "relu" : "linear", { start: 81 + i / 1000, duration: 0.001 });

function page(total: number, make: (i: number) => TreeNode, q: URLSearchParams): Branch {
  const [offset, limit] = [Number(q.get("offset") ?? 0), Number(q.get("limit") ?? 200)];
  const end = Math.min(total, offset + limit);
  const nodes = Array.from({ length: Math.max(0, end - offset) }, (_, i) => make(offset + i));
  return { total, offset, nodes, next: end < total ? end : null, found: q.get("function") ? 17 : null };
}

function tree({ q }: Ask): Branch {
  const parent = q.get("parent") ?? "";
  if (parent === TRAIN.id) return page(STEPS, step, q);
  if (parent === WARM.id && q.get("fold") !== "0") {
    const fold = {
      kind: "fold" as const,
      offset: 2,
      count: 598,
      times: 299,
      text: "linear, relu ×299",
      seconds: 0.6,
      errors: 0,
    };
    return { total: 600, offset: 0, nodes: [layer(0), layer(1), fold], next: null, found: null };
  }
  if (parent === WARM.id) return page(600, layer, q);
  const nodes =
    parent === ""
      ? [MAIN]
      : parent === MAIN.id
        ? [TRAIN, WARM]
        : parent.startsWith("s:")
          ? inside(Number(parent.slice(2)))
          : [];
  return page(nodes.length, (i) => nodes[i], q);
}

function detail({ q }: Ask): CallDetail {
  const id = q.get("call") ?? "";
  const parent = (each: CallNode) => ({ id: each.id, function: each.function });
  if (id.startsWith("s:"))
    return { call: step(Number(id.slice(2))), parents: [parent(MAIN), parent(TRAIN)], callers: [] };
  const found = [MAIN, TRAIN, WARM].find((each) => each.id === id) ?? call(id, "Net.forward");
  return { call: found, parents: found === MAIN ? [] : [parent(MAIN)], callers: [] };
}

const LINES = `@clew.follow
def step(model, batch, lr=0.1):
    """One step.

    Returns the loss.
    """
    x, y = batch  # a pair
    for layer in range(3):
        scale = 1e-3 * (layer + 1)
        x = model.layers[layer](x)
    loss = (x - y).pow(2).mean()
    if loss is None or loss != loss:
        raise ValueError(f"the batch holds a {loss!r}")
    grad = loss.backward()
    return loss.item()`.split("\n");
const SITES: [number, string][] = [
  [26, "x"],
  [28, "scale"],
  [29, "x"],
  [28, "scale"],
  [29, "x"],
  [30, "loss"],
  [33, "grad"],
];

function source({ q }: Ask): Source {
  const at = Math.min(SITES.length, Number(q.get("at") ?? SITES.length));
  const last = new Map(SITES.slice(0, at).map(([line, name], i) => [`${line} ${name}`, { line, name, i }]));
  const values = [...last.values()].map(({ line, name, i }) => {
    const same = (sites: [number, string][]) => sites.filter((site) => site[0] === line && site[1] === name).length;
    const box = name === "scale" || name === "loss" ? lossAt(i) : tensor(64, 10);
    return { line, name, value: box, nth: same(SITES.slice(0, at)), of: same(SITES), now: i === at - 1 };
  });
  return {
    file: "/home/me/spirals/train.py",
    first: 20,
    lines: LINES,
    missing: null,
    total: SITES.length,
    at,
    values,
  };
}

export const answers: Answers = { tree, call: detail, source };
