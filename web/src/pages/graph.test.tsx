import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Graph as Answer, GraphNode } from "../types";
import { answerWith, query, show } from "./testing";

// There are no workers here: the page must then draw the plain layout, and say so.
vi.mock("../layout/worker?worker&inline", () => ({
  default: class {
    constructor() {
      throw new Error("no workers");
    }
  },
}));
const { Graph } = await import("./graph");

function node(id: string, group: string): GraphNode {
  return { id, label: id, group, kind: "operator", place: null, seconds: 0.5, calls: 2, value: null, call: "s:1" };
}
const graph: Answer = {
  what: "graph",
  graphs: 1,
  which: 0,
  nodes: [node("x", ""), node("<b>a</b>", "net"), node("b", "net"), node("y", "")],
  edges: [
    { from: "x", to: "<b>a</b>", label: "input" },
    { from: "<b>a</b>", to: "b", label: "" },
    { from: "b", to: "y", label: "" },
  ],
};

beforeEach(() => {
  const size = { width: 800, height: 600, left: 0, top: 0, right: 800, bottom: 600, x: 0, y: 0 };
  vi.spyOn(SVGElement.prototype, "getBoundingClientRect").mockReturnValue({ ...size, toJSON: () => size } as DOMRect);
});

async function drawn(name: string): Promise<HTMLElement> {
  answerWith({ graph });
  const page = show(<Graph run={name} params={query()} />);
  await vi.waitFor(() => expect(page.querySelectorAll("[data-box]").length).toBeGreaterThan(0));
  return page;
}

function enter(page: HTMLElement, box: string): void {
  const element = [...page.querySelectorAll("[data-box]")].find((each) => each.getAttribute("data-box") === box)!;
  element.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
}

describe("the graph page", () => {
  it("starts with modules closed, and says when the layout is the plain one", async () => {
    const page = await drawn("g1");
    expect([...page.querySelectorAll(".graph-title")].map((each) => each.textContent)).toEqual(["x", "y", "+ net"]);
    expect(page.textContent).toContain("This browser starts no worker");
  });

  it("opens a module by Enter, and shows a node with a link to its call", async () => {
    const page = await drawn("g2");
    enter(page, "module net");
    await vi.waitFor(() => expect(page.textContent).toContain("<b>a</b>"));
    enter(page, "node b");
    await vi.waitFor(() => expect(page.querySelector(".graph-panel")?.textContent).toContain("operator in net"));
    expect(page.querySelector(".graph-call")?.getAttribute("href")).toBe("#/run/g2/tree?call=s%3A1");
  });

  it("fades what was not searched for", async () => {
    const page = await drawn("g3");
    const field = page.querySelector<HTMLInputElement>("[data-search]")!;
    field.value = "b";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    await vi.waitFor(() => expect(page.querySelectorAll(".graph-box.faded")).toHaveLength(2));
  });

  it("leaves everything where it is while only numbers change", async () => {
    const { sameThings, stillFits } = await import("./graph/useLayout");
    const { groupsOf, viewOf } = await import("./graph/groups");
    const { layeredLayout } = await import("../layout/layered");
    const { layoutInput } = await import("./graph/measures");
    const seen = (calls: number, answer = graph) => {
      const nodes = answer.nodes.map((one) => ({ ...one, calls }));
      return viewOf({ ...answer, nodes }, groupsOf(nodes), new Set());
    };
    const drawing = { view: seen(2), layout: layeredLayout(layoutInput(seen(2))), plain: null };
    expect(stillFits(drawing, seen(30))).toBe(true);
    expect(stillFits(drawing, seen(1e12))).toBe(false);
    expect(sameThings(seen(2), seen(1e12))).toBe(true);
    const grown = { ...graph, nodes: [...graph.nodes, node("z", "")] };
    expect([stillFits(drawing, seen(2, grown)), sameThings(seen(2), seen(2, grown))]).toEqual([false, false]);
  });

  it("says what to do where there is none", async () => {
    answerWith({ graph: { ...graph, nodes: [], edges: [] } });
    const page = show(<Graph run="g4" params={query()} />);
    await vi.waitFor(() => expect(page.textContent).toContain("This run has no graph."));
  });
});
