import { describe, expect, it } from "vitest";
import type { GraphNode } from "../../types";
import { groupsOf, viewOf } from "./groups";
import { layoutInput, linkText, sizeOf, textOf } from "./measures";

function node(more: Partial<GraphNode>): GraphNode {
  return {
    id: "a",
    label: "linear",
    group: "",
    kind: "operator",
    place: null,
    seconds: null,
    calls: null,
    value: null,
    call: null,
    ...more,
  };
}
const boxOf = (one: GraphNode) => ({
  id: "n",
  label: one.label,
  node: one,
  group: null,
  frame: null,
  seconds: one.seconds,
  leads: false,
});

describe("the text of a box", () => {
  it("tells shape, time and how often", () => {
    const value = { text: "tensor", type: "Tensor", kept: "full" as const, shape: [64, 10], dtype: "float32" };
    expect(textOf(boxOf(node({ value, seconds: 0.002, calls: 3 }))).below).toBe("float32 (64, 10) · 2 ms · ×3");
  });

  it("is short where nothing is known, and cut where it is long", () => {
    expect(textOf(boxOf(node({})))).toEqual({ title: "linear", below: "" });
    expect(textOf(boxOf(node({ label: "x".repeat(500) }))).title).toHaveLength(34);
    expect(textOf(boxOf(node({ label: "", kind: "guard" }))).title).toBe("guard");
  });

  it("leaves what it gave to the links, where there are some", () => {
    const value = { text: "3", type: "int", kept: "full" as const };
    expect(textOf({ ...boxOf(node({ value, seconds: 0.002 })), leads: true }).below).toBe("2 ms");
    expect(linkText({ from: "a", to: "b", labels: ["3 · 2 ms"], count: 2 })).toBe("3 · 2 ms ×2");
  });

  it("decides how large the box is", () => {
    expect(sizeOf(boxOf(node({ label: "a" }))).width).toBeLessThan(
      sizeOf(boxOf(node({ label: "a long label" }))).width,
    );
    expect(sizeOf(boxOf(node({ seconds: 1 }))).height).toBeGreaterThan(sizeOf(boxOf(node({}))).height);
  });

  it("keeps frames apart from boxes in what the layout is asked for", () => {
    const nodes = [node({ id: "a", group: "m.x" }), node({ id: "b", group: "m.x" }), node({ id: "c", group: "m" })];
    const graph = { what: "graph" as const, graphs: 1, which: 0, nodes, edges: [{ from: "a", to: "c", label: "" }] };
    const input = layoutInput(viewOf(graph, groupsOf(nodes), new Set(["m"])));
    expect(input.frames).toEqual([{ id: "frame m", frame: null }]);
    expect(input.boxes.map((box) => [box.id, box.frame])).toEqual([
      ["node c", "frame m"],
      ["module m.x", "frame m"],
    ]);
    expect(input.links).toEqual([{ from: "module m.x", to: "node c", text: 0 }]);
  });
});
