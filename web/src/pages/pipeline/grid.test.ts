import { describe, expect, it } from "vitest";
import type { Cell, Named, Pipeline } from "../../types";
import { chosenOf, glanceOf, gridOf, secondsOf, stepped } from "./grid";

function named(name: string, picture?: string): Named {
  return { name, value: { text: name, type: "int", kept: "full", picture } };
}

function cell(more: Partial<Cell> = {}): Cell {
  return {
    item: 0,
    stage: 0,
    function: "f",
    place: null,
    seconds: 1,
    where: "",
    row: null,
    ins: [],
    outs: [],
    ...more,
  };
}

function pipeline(more: Partial<Pipeline>): Pipeline {
  const stages = [
    { name: "read", calls: 1 },
    { name: "model", calls: 1 },
  ];
  return { traces: 1, trace: 0, head: [], stages, total: 0, offset: 0, items: [], cells: [], findings: [], ...more };
}

describe("the grid of a pipeline", () => {
  it("keeps several cells where a stage saw an item more than once", () => {
    const grid = gridOf(pipeline({ cells: [cell({ function: "a" }), cell({ function: "b" }), cell({ stage: 1 })] }));
    expect(grid.cells.get("0 0")?.map((each) => each.function)).toEqual(["a", "b"]);
    expect(grid.cells.get("1 0")).toBeUndefined();
  });

  it("hangs a finding on its stage, and keeps those of none apart", () => {
    const finding = (stage: string | null) => ({ kind: "k", stage, text: "t", remedy: "" });
    const grid = gridOf(pipeline({ findings: [finding("model"), finding(null), finding("gone"), finding("model")] }));
    expect(grid.marks.get(1)).toHaveLength(2);
    expect(grid.loose).toHaveLength(2);
  });
});

describe("a cell at a glance", () => {
  it("shows the picture and two values, and counts the rest", () => {
    const glance = glanceOf(cell({ outs: [named("a"), named("image", "data:"), named("b"), named("c")] }));
    expect(glance.picture?.name).toBe("image");
    expect(glance.values.map((value) => value.name)).toEqual(["a", "b"]);
    expect(glance.more).toBe(1);
  });

  it("shows what went in where nothing came out", () => {
    expect(glanceOf(cell({ ins: [named("x")] })).values.map((value) => value.name)).toEqual(["x"]);
  });

  it("adds up the times that are known", () => {
    expect(secondsOf([cell(), cell({ seconds: null }), cell({ seconds: 2 })])).toBe(3);
    expect(secondsOf([cell({ seconds: null })])).toBeNull();
  });
});

describe("going through the grid", () => {
  it("follows the arrows and stays inside", () => {
    expect(stepped({ item: 0, stage: 1 }, "ArrowUp", 3, 2)).toEqual({ item: 0, stage: 1 });
    expect(stepped({ item: 0, stage: 1 }, "j", 3, 2)).toEqual({ item: 1, stage: 1 });
    expect(stepped({ item: 0, stage: 1 }, "x", 3, 2)).toBeNull();
  });

  it("reads the address and refuses what is not in the grid", () => {
    expect(chosenOf("2:1", 3, 2)).toEqual({ item: 2, stage: 1 });
    expect(chosenOf("3:1", 3, 2)).toBeNull();
    expect(chosenOf("x", 3, 2)).toBeNull();
    expect(chosenOf(null, 3, 2)).toBeNull();
  });
});
