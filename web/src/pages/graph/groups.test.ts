import { describe, expect, it } from "vitest";
import type { Graph, GraphNode } from "../../types";
import { boxOf, groupsOf, heatOf, matching, openAtFirst, pathTo, viewOf } from "./groups";
import { layoutInput } from "./measures";

function node(id: string, group: string, seconds: number | null = 1): GraphNode {
  return { id, label: id, group, kind: "operator", place: null, seconds, calls: 1, value: null, call: null };
}

function graph(nodes: GraphNode[], edges: string[] = []): Graph {
  const pairs = edges.map((edge) => edge.split(">") as [string, string]);
  return {
    what: "graph",
    graphs: 1,
    which: 0,
    nodes,
    edges: pairs.map(([from, to]) => ({ from, to, label: `${from} to` })),
  };
}

const encoder = graph(
  [
    node("x", ""),
    node("a", "net.layers.0", 2),
    node("b", "net.layers.0", 3),
    node("c", "net.layers.1"),
    node("d", "net.layers.1", null),
    node("e", "net.head"),
    node("y", ""),
  ],
  ["x>a", "a>b", "b>c", "b>d", "c>e", "d>e", "e>y", "e>gone"],
);
const shown = (open: string[] = [], of = encoder) => viewOf(of, groupsOf(of.nodes), new Set(open));

describe("a graph by its modules", () => {
  it("shows closed modules as one box with all that is in them", () => {
    const view = shown();
    expect(view.boxes.map((box) => box.label)).toEqual(["x", "y", "net"]);
    expect(view.boxes[2]?.group).toMatchObject({ size: 5, seconds: 7 });
  });

  it("joins the links of a closed module, and hides those inside it", () => {
    expect(shown().links.map((link) => [link.from, link.to, link.count])).toEqual([
      ["node x", "module net", 1],
      ["module net", "node y", 1],
    ]);
  });

  it("opens module by module, with a frame for each", () => {
    const view = shown(["net", "net.layers"]);
    expect(view.frames.map((frame) => frame.path)).toEqual(["net", "net.layers"]);
    expect(view.boxes.map((box) => [box.label, box.frame])).toContainEqual(["0", "net.layers"]);
    expect(view.links).toContainEqual({
      from: "module net.layers.0",
      to: "module net.layers.1",
      labels: ["b to"],
      count: 2,
    });
  });

  it("does not hide a lone node in a module, nor a module in a module", () => {
    const groups = groupsOf([node("a", "deep.er.still"), node("b", "deep.er.still"), node("c", "lone.some")]);
    expect([...groups.all.keys()]).toEqual(["deep.er.still"]);
    expect(groups.top.nodes).toEqual(["c"]);
  });

  it("says in which box a node is seen", () => {
    const groups = groupsOf(encoder.nodes);
    expect(boxOf(groups, new Set(), "a")).toBe("module net");
    expect(boxOf(groups, new Set(["net"]), "a")).toBe("module net.layers");
    expect(boxOf(groups, new Set(["net", "net.layers", "net.layers.0"]), "a")).toBe("node a");
    expect(pathTo(groups, "net.layers.0")).toEqual(["net", "net.layers", "net.layers.0"]);
  });

  it("opens the only module there is, and nothing where there are several", () => {
    const only = groupsOf(encoder.nodes.filter((each) => each.group !== ""));
    expect([...openAtFirst(only)]).toEqual(["net", "net.layers"]);
    expect([...openAtFirst(groupsOf(encoder.nodes))]).toEqual([]);
  });

  it("keeps five thousand nodes of fifty modules in fifty boxes", () => {
    const many = Array.from({ length: 5000 }, (_, i) => node(`n${i}`, `net.block${i % 50}`));
    const groups = groupsOf(many);
    expect(viewOf(graph(many), groups, openAtFirst(groups)).boxes).toHaveLength(50);
  });

  it("keeps a link of a node to itself", () => {
    expect(shown([], graph([node("a", "")], ["a>a"])).links).toHaveLength(1);
  });

  it("finds nodes by label, module and kind", () => {
    expect(matching(encoder, "HEAD")).toEqual(["e"]);
    expect(matching(encoder, "  ")).toEqual([]);
  });

  it("colours by the share of the longest", () => {
    expect([0, 0.1, 0.5, 1].map((seconds) => heatOf(seconds, 1))).toEqual([0, 1, 3, 4]);
    expect(heatOf(null, 1)).toBeNull();
    expect(heatOf(0, 0)).toBeNull();
  });
});

describe("a graph of very many links", () => {
  it("keeps what boxes gave in the boxes: the links have no room for it", () => {
    const nodes = Array.from({ length: 70 }, (_, i) => node(`n${i}`, ""));
    const links = nodes.slice(1).map((one) => `n0>${one.id}`);
    const [many, few] = [links, links.slice(0, 5)].map((some) => shown([], graph(nodes, some)));
    expect([many!.roomy, many!.boxes[0]!.leads, few!.roomy, few!.boxes[0]!.leads]).toEqual([false, false, true, true]);
    expect(layoutInput(many!).links.every((link) => link.text === 0)).toBe(true);
    expect(layoutInput(few!).links.every((link) => link.text > 0)).toBe(true);
  });
});
