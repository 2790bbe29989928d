import { describe, expect, it } from "vitest";
import { branch, call, change, fold } from "./pages/tree/tree.fixtures";
import { isSearch, ReportTree } from "./reporttree";
import type { TreeNode } from "./types";

// main → step ×3 (folded, but for the first) → fail; other
const tree = new ReportTree({
  "/api/run/r": {},
  "/api/run/r/tree?limit=200&offset=0": branch([
    call("main", { function: "main", inside: 4, duration: 2 }),
    call("other", { function: "Net.other" }),
  ]),
  "/api/run/r/tree?limit=200&offset=0&parent=main": branch([
    call("s0", { function: "step", inside: 1 }),
    change("loss"),
    fold(2, 2),
  ]),
  "/api/run/r/tree?fold=0&limit=2&offset=2&parent=main": branch(
    [call("s1", { function: "step", inside: 1 }), call("s2", { function: "step" })],
    { offset: 2 },
  ),
  "/api/run/r/tree?limit=200&offset=0&parent=s1": branch([
    call("f", { function: "fail", error: "ValueError: x", stage: "load" }),
  ]),
});

function seen(nodes: TreeNode[]): string[] {
  return nodes.map((node) => (node.kind === "call" ? `${node.id}${node.fits ? "!" : ""}` : node.kind));
}

describe("the tree of a report", () => {
  it("shows what fits, and what leads to it, through folds", () => {
    const roots = tree.search({ function: "fail" });
    expect([seen(roots.nodes), roots.found]).toEqual([["main"], 1]);
    expect(seen(tree.search({ function: "fail", parent: "main" }).nodes)).toEqual(["s1"]);
    expect(seen(tree.search({ function: "fail", parent: "s1" }).nodes)).toEqual(["f!"]);
  });

  it("takes a name without its class, a pattern, or a part of a name", () => {
    expect(seen(tree.search({ function: "other" }).nodes)).toEqual(["other!"]);
    expect(tree.search({ function: "st*" }).found).toBe(3);
    expect(tree.search({ function: "AI" }).found).toBe(2);
    expect(tree.search({ function: "(" }).nodes).toEqual([]);
  });

  it("finds errors, stages, slow calls, and calls that hold a name", () => {
    expect(tree.search({ errors: 1 }).found).toBe(1);
    expect(tree.search({ stage: "load" }).found).toBe(1);
    expect(seen(tree.search({ slow: "1.5" }).nodes)).toEqual(["main!"]);
    expect(seen(tree.search({ name: "loss" }).nodes)).toEqual(["main!"]);
    expect(seen(tree.search({ name: "loss", parent: "main" }).nodes)).toEqual(["change"]);
  });

  it("comes in pages", () => {
    const first = tree.search({ function: "step", parent: "main", limit: 2 });
    expect([seen(first.nodes), first.total, first.next]).toEqual([["s0!", "s1!"], 3, 2]);
    expect(seen(tree.search({ function: "step", parent: "main", offset: 2, limit: 2 }).nodes)).toEqual(["s2!"]);
  });

  it("is searched only where something is searched for", () => {
    expect(isSearch("/api/run/r/tree", { function: "", parent: "a" })).toBe(false);
    expect(isSearch("/api/run/r/tree", { errors: 1 })).toBe(true);
    expect(isSearch("/api/run/r/series", { name: "loss" })).toBe(false);
  });
});
