// Pictures on their way through five stages; one of them gets lost.

import type { Answers, Ask } from "../mock.ts";
import type { Cell, Pipeline, ValueBox } from "../src/types.ts";

const STAGES = ["read", "decode", "augment", "batch", "model"];
const TOTAL = 140;
// A picture of one grey pixel.
const PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAIiIiAAAACwAAAAAAQABAAACAkQBADs=";

const image = (): ValueBox => ({
  text: "float32 (3, 32, 32)",
  type: "torch.Tensor",
  kept: "full",
  shape: [3, 32, 32],
  dtype: "float32",
  picture: PIXEL,
});

function cellsOf(item: number, at: number): Cell[] {
  const reached = at === 4 ? 3 : STAGES.length;
  return STAGES.slice(0, reached).map((stage, index) => ({
    item,
    stage: index,
    function: stage,
    place: { file: "/home/me/spirals/data.py", line: 10 + index, function: stage },
    seconds: 0.001 * (index + 1),
    where: index < 3 ? "worker 1" : "",
    row: index < 3 ? null : at % 4,
    ins: [{ name: "image", value: image() }],
    outs:
      index < 4
        ? [{ name: "return", value: image() }]
        : [{ name: "loss", value: { text: "0.37", type: "float", kept: "full" } }],
  }));
}

function pipeline({ q }: Ask): Pipeline {
  const offset = Number(q.get("offset") ?? 0);
  const count = Math.max(0, Math.min(Number(q.get("limit") ?? 60), TOTAL - offset));
  const numbers = Array.from({ length: count }, (_, i) => offset + i);
  return {
    traces: 3,
    trace: Number(q.get("trace") ?? 2),
    head: [`${TOTAL} items, 5 stages, 28 calls in 120 ms`, "altered: the loader gives 140 of 5,000 items"],
    stages: STAGES.map((name) => ({ name, calls: 28 })),
    total: TOTAL,
    offset,
    items: numbers.map((at) => ({
      id: `image-${at}`,
      source: `cats/${at}.png`,
      loss: at % 3 ? "0.37" : null,
      files: [],
    })),
    cells: numbers.flatMap((at, item) => cellsOf(item, at)),
    findings: [
      {
        kind: "in-place",
        stage: "augment",
        text: "`flip` changes the image it was given",
        remedy: "Copy it first: `image.copy()`.",
      },
      { kind: "lost", stage: null, text: "image-4 did not reach the stage `batch`", remedy: "" },
    ],
  };
}

export const answers: Answers = { pipeline };
