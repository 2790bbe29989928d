import { describe, expect, it } from "vitest";
import { emptyPart, withBranch } from "./branches";
import { ROOT, rowAtLine, rowsOf, type TreeState } from "./rows";
import { branch, call, change } from "./tree.fixtures";

function state(more: Partial<TreeState> = {}): TreeState {
  const root = withBranch(
    emptyPart(ROOT, null),
    branch([call("a", { inside: 2, duration: 4 }), call("b", { inside: 1 })]),
  );
  const inner = withBranch(emptyPart("call a", "a"), branch([change("x"), call("c")], { total: 1_000_000, next: 2 }));
  return {
    parts: new Map([
      [ROOT, root],
      ["call a", inner],
    ]),
    open: new Set(),
    problems: new Map(),
    ...more,
  };
}

describe("the rows", () => {
  it("show the top only while nothing is open", () => {
    expect(rowsOf(state()).rows.map((row) => row.kind === "node" && row.key)).toEqual(["call a", "call b"]);
  });

  it("hang what is open one level under it, with a hole for what is not loaded", () => {
    const rows = rowsOf(state({ open: new Set(["call a"]) }));
    expect(rows.rows.map((row) => [row.kind, row.level])).toEqual([
      ["node", 0],
      ["node", 1],
      ["node", 1],
      ["hole", 1],
      ["node", 0],
    ]);
    expect(rows.lines).toBe(1_000_002);
    expect(rows.place.get("call b")).toBe(4);
  });

  it("find the row of a line, in a hole of a million too", () => {
    const rows = rowsOf(state({ open: new Set(["call a"]) }));
    expect([0, 2, 3, 500_000, 1_000_000, 1_000_001].map((line) => rowAtLine(rows, line))).toEqual([0, 2, 3, 3, 3, 4]);
  });

  it("scale the bars by the parent, and by the longest at the top", () => {
    const scales = rowsOf(state({ open: new Set(["call a"]) })).rows.map((row) =>
      row.kind === "node" ? row.scale : null,
    );
    expect(scales).toEqual([4, 4, 4, null, 4]);
  });

  it("keep what was loaded where the rest could not be, and ask for no more of it", () => {
    const problems = new Map([["call a", { error: "not in this report", remedy: "", slug: "" }]]);
    const rows = rowsOf(state({ open: new Set(["call a"]), problems })).rows;
    expect(rows.map((row) => row.kind)).toEqual(["node", "node", "node", "note", "node"]);
  });

  it("say that a branch is on its way, or why it is not", () => {
    const problems = new Map([["call b", { error: "the run was deleted", remedy: "", slug: "gone" }]]);
    const rows = rowsOf(state({ open: new Set(["call b"]), problems })).rows;
    expect(rows[2]).toMatchObject({ kind: "note", problem: "the run was deleted" });
    expect(rowsOf(state({ open: new Set(["call b"]) })).rows[2]).toMatchObject({ kind: "note", problem: null });
  });
});
