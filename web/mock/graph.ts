// Graph 1: a small encoder. Graph 2: five thousand nodes in fifty modules. Graph 3: five thousand in none.

import type { Answers, Ask } from "../mock.ts";
import type { Graph, GraphEdge, GraphNode } from "../src/types.ts";

function node(id: string, label: string, group: string, seconds: number | null, kind = "operator"): GraphNode {
  const value = { text: "tensor", type: "torch.Tensor", kept: "full" as const, shape: [64, 128], dtype: "float32" };
  const place = { file: "/home/me/spirals/net.py", line: 30, function: "Encoder.forward" };
  return { id, label, group, kind, place, seconds, calls: 100, value, call: "s:3" };
}

function layers(count: number, heads: number): { nodes: GraphNode[]; edges: GraphEdge[] } {
  const nodes = [node("x", "x", "", null, "input")];
  const edges: GraphEdge[] = [];
  const link = (from: string, to: string, label = "float32 (64, 128)") => edges.push({ from, to, label });
  let before = "x";
  for (let layer = 0; layer < count; layer += 1) {
    const group = `encoder.layers.${layer}`;
    nodes.push(
      node(`${layer}.mix`, "softmax", `${group}.attention`, 0.004),
      node(`${layer}.mlp`, "mlp", group, 0.009 * (layer % 3)),
    );
    for (let head = 0; head < heads; head += 1) {
      const id = `${layer}.${head}`;
      nodes.push(node(id, "linear", `${group}.attention`, 0.001 * layer));
      link(before, id);
      link(id, `${layer}.mix`);
    }
    link(`${layer}.mix`, `${layer}.mlp`, "attention");
    link(before, `${layer}.mlp`, "residual");
    before = `${layer}.mlp`;
  }
  nodes.push(node("y", "logits", "", null, "output"));
  link(before, "y", "float32 (64, 10)");
  return { nodes, edges };
}

function flat(count: number): { nodes: GraphNode[]; edges: GraphEdge[] } {
  const nodes = Array.from({ length: count }, (_, i) => node(String(i), `op${i}`, "", (i * 37) % 100));
  const edges = nodes
    .slice(1)
    .flatMap((_, i) =>
      [7, 31].map((n) => ({ from: String(Math.max(0, i - ((i * n) % 60))), to: String(i + 1), label: "" })),
    );
  return { nodes, edges };
}

function graph({ q }: Ask): Graph {
  const which = Number(q.get("which") ?? 0);
  const made = which === 0 ? layers(6, 3) : which === 1 ? layers(50, 98) : flat(5000);
  return { what: "graph", graphs: 3, which, ...made };
}

export const answers: Answers = { graph };
