import { describe, expect, it } from "vitest";
import { changesUpTo, emptyPart, foldPart, holesOf, itemAt, itemsOf, withBranch } from "./branches";
import { branch, call, change, fold } from "./tree.fixtures";

const calls = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => call(String(from + i)));

describe("the children of a parent", () => {
  it("has nothing and no hole before it was asked for", () => {
    expect(holesOf(emptyPart("p", null))).toEqual([]);
  });

  it("counts a fold as all the siblings it stands for", () => {
    const items = itemsOf(branch([call("a"), fold(1, 9), change("x")], { total: 11 }), "p");
    expect(items.map((item) => [item.at, item.span])).toEqual([
      [0, 1],
      [1, 9],
      [10, 1],
    ]);
  });

  it("leaves a hole behind the first page", () => {
    const part = withBranch(emptyPart("p", null), branch(calls(0, 5), { total: 20, next: 5 }));
    expect(holesOf(part)).toEqual([[5, 20]]);
  });

  it("takes a page from the middle, and keeps holes before and behind it", () => {
    let part = withBranch(emptyPart("p", null), branch(calls(0, 5), { total: 20, next: 5 }));
    part = withBranch(part, branch(calls(10, 15), { total: 20, offset: 10, next: 15 }));
    expect(holesOf(part)).toEqual([
      [5, 10],
      [15, 20],
    ]);
    expect(itemAt(part, 12)?.key).toBe("call 12");
    expect(itemAt(part, 7)).toBeUndefined();
  });

  it("lets a newer answer take the place of an older one", () => {
    let part = withBranch(emptyPart("p", null), branch(calls(0, 10), { total: 10 }));
    part = withBranch(part, branch([call("new")], { total: 12, offset: 4, next: 5 }));
    const keys = part.stretches.flatMap((stretch) => stretch.items.map((item) => item.key));
    expect(keys.slice(3, 6)).toEqual(["call 3", "call new", "call 5"]);
    expect(holesOf(part)).toEqual([[10, 12]]);
  });

  it("counts the changes up to one, where all before it are known", () => {
    const part = withBranch(
      emptyPart("p", "p"),
      branch([change("x"), call("a"), change("y"), fold(3, 9), change("z")], { total: 13 }),
    );
    expect([0, 1, 2, 12].map((at) => changesUpTo(part, at))).toEqual([1, 1, 2, null]);
    const later = withBranch(emptyPart("p", "p"), branch([change("x")], { total: 9, offset: 4, next: 5 }));
    expect(changesUpTo(later, 4)).toBeNull();
  });

  it("ends an opened fold where the fold ends, though its parent goes on", () => {
    const [, item] = itemsOf(branch([call("a"), fold(1, 4), call("z")], { total: 6 }), null);
    const part = withBranch(foldPart(item!, null), branch(calls(1, 3), { total: 6, offset: 1, next: 3 }));
    expect(part.to).toBe(5);
    expect(holesOf(part)).toEqual([[3, 5]]);
  });
});
