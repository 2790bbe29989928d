import { describe, expect, it } from "vitest";
import { emptyPart, withBranch } from "./branches";
import { actOf } from "./keys";
import { ROOT, rowsOf } from "./rows";
import { branch, call, change, fold } from "./tree.fixtures";

function rows(...open: string[]) {
  const top = [call("a", { inside: 2 }), fold(1, 5), change("loss")];
  const root = withBranch(emptyPart(ROOT, null), branch(top, { total: 7 }));
  const inner = withBranch(emptyPart("call a", "a"), branch([change("x"), call("b")], { total: 9, next: 2 }));
  return rowsOf({
    parts: new Map([
      [ROOT, root],
      ["call a", inner],
    ]),
    open: new Set(open),
    problems: new Map(),
  });
}

describe("the keys of the tree", () => {
  it("open to the right, then step in", () => {
    expect(actOf("ArrowRight", rows(), 0)).toEqual({ kind: "open", key: "call a" });
    expect(actOf("ArrowRight", rows("call a"), 0)).toEqual({ kind: "go", line: 1 });
    expect(actOf("ArrowRight", rows(), 2)).toBeNull();
  });

  it("close to the left, then step out", () => {
    expect(actOf("ArrowLeft", rows("call a"), 0)).toEqual({ kind: "close", key: "call a" });
    expect(actOf("ArrowLeft", rows("call a"), 2)).toEqual({ kind: "go", line: 0 });
    expect(actOf("ArrowLeft", rows(), 0)).toBeNull();
  });

  it("step out of what is not loaded yet", () => {
    expect(actOf("ArrowLeft", rows("call a"), 7)).toEqual({ kind: "go", line: 0 });
    expect(actOf("Enter", rows("call a"), 7)).toBeNull();
  });

  it("choose with Enter, and open a fold with it", () => {
    expect(actOf("Enter", rows(), 0)).toEqual({ kind: "choose", key: "call a" });
    expect(actOf("Enter", rows(), 1)).toEqual({ kind: "open", key: "fold  1" });
  });

  it("leave other keys and an empty tree alone", () => {
    const nothing = withBranch(emptyPart(ROOT, null), branch([]));
    const empty = rowsOf({ parts: new Map([[ROOT, nothing]]), open: new Set(), problems: new Map() });
    expect(actOf("x", rows(), 0)).toBeNull();
    expect(actOf("ArrowLeft", empty, 0)).toBeNull();
  });
});
