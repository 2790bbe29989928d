import type { Overview, RunRow, Runs, Status } from "../src/types.ts";
import type { Answers } from "../mock.ts";

const NOW = Date.now() / 1000;

function row(id: string, name: string, status: Status, ago: number, duration: number, size: number): RunRow {
  const error =
    status === "failed" ? "ValueError: operands could not be broadcast together with shapes (64,) (32,)" : null;
  const tags: Record<string, string> = id.length % 2 ? { model: "resnet18", seed: "3" } : {};
  const path = `/home/me/spirals/clew_runs/${id}`;
  return { id, name, status, duration, size, error, tags, path, problem: null, started: NOW - ago };
}

let rows: RunRow[] = [
  row("2026-11-16-train-3", "train", "running", 190, 190, 84_200_000),
  row("2026-11-16-train-2", "train, lower rate", "finished", 4_000, 1_804, 1_320_000_000),
  row("2026-11-16-t", "<img src=x onerror=alert(1)>", "finished", 9_000, 3.2, 4_020),
  row("2026-11-15-sweep", "sweep", "failed", 86_000, 62, 20_400_000),
  row(
    "2026-11-15-eval",
    "evaluate the best checkpoint of the sweep on the held-out set",
    "interrupted",
    99_000,
    0.82,
    804_000,
  ),
  row("2026-11-12-k", "killed by the machine", "killed", 400_000, 36_400, 9_900_000_000),
  row("2026-11-11-e", "left early", "exited", 480_000, 12, 90_000),
  row("2026-11-10-d", "the disk was full", "incomplete", 500_000, 12, 80_000),
  {
    ...row("2026-11-10-d", "damaged", "finished", 520_000, 0, 412),
    problem: "run.json cannot be read: it ends in the middle.",
  },
];

const NUMBERS = ["loss", "accuracy", "rate", "grad_norm", "flat", "never", "model.layers[0].weight.grad.norm()"];
const TENSORS = ["model.conv1.weight", "model.fc.bias", "activations", "batch", "empty"];

function overview(id: string): Overview {
  const run = rows.find((each) => each.id === id);
  if (!run) throw new Error("There is no such run.");
  const many = Array.from({ length: 400 }, (_, i) => `layer${i}.norm`);
  return {
    run,
    version: id.endsWith("3") ? Math.floor(Date.now() / 1000) : 1,
    counts: { changes: 10_402_310, calls: 104_201, names: 412, functions: 1, threads: 3, ranks: 2 },
    names: [
      ...[...NUMBERS, ...many].map((name) => ({
        name,
        kind: "number" as const,
        count: 3_000_000,
        functions: ["train", "step"],
      })),
      ...TENSORS.map((name) => ({ name, kind: "tensor" as const, count: 400, functions: ["forward"] })),
      { name: "config", kind: "value", count: 3, functions: ["main"] },
      { name: "<b>bold</b>", kind: "number", count: 20, functions: ["<script>alert(1)</script>"] },
    ],
    functions: [{ function: "train", file: "/home/me/spirals/train.py", line: 31, calls: 1, seconds: 62, errors: 0 }],
    pages: { series: true, tree: true, pipeline: false, graph: true },
    ledger: [
      { kind: "skipped", subject: "helper in utils.py", text: "No source: its lines were not watched." },
      {
        kind: "summary",
        subject: "activations",
        text: '412 tensors over 16 MB were kept as summaries. Use keep="full" to keep them.',
      },
      {
        kind: "lost",
        subject: "thread loader-1",
        text: "The last 3 changes were not written: the process was killed.",
      },
    ],
    problems: ["shard host-2-411 ends in the middle of a batch; all before it was read."],
    meta: {
      format: 3,
      name: run.name,
      command: ["python", "train.py", "--epochs", "20"],
      environment: { python: "3.11.9", platform: "Linux x86_64", packages: { numpy: "2.1.0", torch: "2.13.0" } },
      git: { commit: "8d1f0c3", dirty: true, note: "<script>alert(2)</script>" },
      options: { keep: "auto", limit: 16_000_000, names: ["loss", "accuracy"], every: null },
    },
  };
}

export const answers: Answers = {
  runs: (): Runs => ({ base: "/home/me/spirals/clew_runs", runs: rows }),
  "": ({ run }) => overview(run),
  version: ({ run }) => ({
    version: Math.floor(Date.now() / 1000),
    status: rows.find((each) => each.id === run)!.status,
  }),
  edit: ({ run, body }) => {
    rows = rows.map((each) => (each.id === run ? { ...each, ...body } : each));
    return rows.find((each) => each.id === run);
  },
  delete: ({ run }) => {
    rows = rows.filter((each) => each.id !== run);
    return { deleted: true };
  },
};
