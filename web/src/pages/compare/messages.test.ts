import { describe, expect, it } from "vitest";
import { diff, difference, node } from "./diff.fixtures";
import { defaultsText, headlineOf, heatOf, linesOf, measureRows, num, openAtFirst, strictness } from "./messages";
import { sentence } from "../sentence";

describe("the headline of a comparison", () => {
  it("says that the runs are equal, and how", () => {
    expect(headlineOf(diff())).toMatchObject({
      tone: "good",
      title: "one and two are equal",
      text: "10 values compared, bit for bit the same.",
    });
    expect(headlineOf(diff({}, { identical: 8, within: 2 })).text).toContain(
      "8 bit for bit the same, 2 within the tolerance",
    );
  });

  it("names the first difference and where it is", () => {
    const told = headlineOf(diff({ first: difference() }, { equal: false, differ: 2, compared: 10 }));
    expect(told).toEqual({
      tone: "bad",
      title: "First difference: loss in train at step 3",
      text: "2 values of 10 differ.",
    });
  });

  it("does not call runs equal of which one has more", () => {
    const told = headlineOf(diff({}, { equal: false, only_in_b: { calls: 2, values: 1 } }));
    expect(told.tone).toBe("warn");
    expect(told.text).toContain("2 calls and 1 value are only in B");
  });

  it("does not call runs equal of which nothing was compared", () => {
    expect(headlineOf(diff({}, { equal: false, compared: 0 })).title).toBe("Nothing was compared");
  });
});

describe("how strict it was", () => {
  it("names the defaults, the tolerances given, or the noise", () => {
    const { settings } = diff();
    expect(strictness(settings)).toBe("defaults by dtype");
    expect(strictness({ ...settings, rtol: 1e-5, atol: 0, ignore: ["time*"] })).toBe(
      "rtol 1e-5, atol 0 · without time*",
    );
    expect(strictness({ ...settings, noise: 3 })).toBe("the noise of each place, up to 3 times");
  });
  it("states the defaults where they hold", () => {
    const { settings } = diff();
    const defaults = { float32: { rtol: 1.3e-6, atol: 1e-5 }, float64: { rtol: 0, atol: 0 } };
    expect(defaultsText({ ...settings, defaults })).toBe(
      "Defaults: float32 rtol 1.3e-6, atol 1e-5; float64 exact; all else exact.",
    );
    expect(defaultsText({ ...settings, defaults: null })).toBeNull();
  });
});

describe("the measures of a difference", () => {
  it("are told as far as they are there", () => {
    const rows = measureRows({
      max_abs: "NaN",
      count: 2,
      total: 12,
      first_index: [0, 1],
      first_values: [1, 2.5],
      nan: [0, 3],
      inf: [0, 0],
    });
    expect(rows).toEqual([
      ["largest difference", "NaN"],
      ["elements", "2 of 12 beyond the tolerance"],
      ["first at", "[0, 1]: 1 against 2.5"],
      ["NaN", "0 against 3"],
    ]);
    expect(measureRows({})).toEqual([]);
  });

  it("tell shapes and dtypes that are not the same", () => {
    expect(
      measureRows({
        shapes: [
          [2, 3],
          [3, 2],
        ],
        dtypes: ["float32", "float64"],
      }),
    ).toEqual([
      ["shapes", "(2, 3) against (3, 2)"],
      ["dtypes", "float32 against float64"],
    ]);
  });

  it("write what JSON has no number for", () => {
    expect([num("Infinity"), num("-Infinity"), num("NaN"), num(null), num(0.5)]).toEqual([
      "Inf",
      "-Inf",
      "NaN",
      "–",
      "0.5",
    ]);
  });
});

describe("figures and sentences", () => {
  it("need no exponent where a whole number is short enough", () => {
    expect([num(213729.69), num(12.3456), num(1e13), num(0.000012)]).toEqual([
      "213,730",
      "12.35",
      "10,000,000,000,000",
      "1.2e-5",
    ]);
  });

  it("begin with a capital and end with a stop", () => {
    expect(["it differs", "Done.", ""].map(sentence)).toEqual(["It differs.", "Done.", ""]);
  });
});

describe("the tree of agreement", () => {
  const tree = node("run", 3, {
    children: [node("a", 0, { children: [node("x", 0)] }), node("b", 3, { children: [node("y", 3)] })],
  });

  it("opens what does not agree, and nothing else", () => {
    const open = openAtFirst(tree);
    expect([...open]).toEqual(["/b"]);
    expect(linesOf(tree, open).map((line) => [line.key, line.level])).toEqual([
      ["/a", 0],
      ["/b", 0],
      ["/b/y", 1],
    ]);
  });

  it("does not open more than can be read", () => {
    const wide = node("run", 1, {
      children: [node("m", 1, { children: Array.from({ length: 500 }, (_, i) => node(`v${i}`, 1)) })],
    });
    expect(openAtFirst(wide).size).toBe(0);
  });

  it("is coloured by the worst", () => {
    const worst = [0, 1e-8, 1e-4, 0.1, 20, "Infinity" as const].map((each) =>
      heatOf(node("v", each === 0 ? 0 : 1, { worst: each })),
    );
    expect(worst).toEqual([0, 1, 2, 3, 4, 4]);
  });
});
