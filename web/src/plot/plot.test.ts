import { describe, expect, test } from "vitest";
import { marksBetween } from "./options";
import type { Curve } from "../types";
import { colourAt, paint, scaleFor } from "./colours";
import { joined, type Line, moved, nearest, valueRange, wholeRange } from "./lines";
import { cutCurve, lowerBound, reduceCurve } from "./reduce";
import { smooth } from "./smooth";

function curve(y: (number | null)[]): Curve {
  const x = y.map((_, i) => i * 10);
  return {
    name: "loss",
    axis: "step",
    total: y.length,
    inside: y.length,
    range: [0, 10],
    reduced: false,
    x,
    y,
    marks: [],
    marksTotal: 0,
  };
}

function line(y: (number | null)[], more: Partial<Line> = {}): Line {
  return { id: "a", label: "a", colour: "#000", x: y.map((_, i) => i), y, bands: [], marks: [], ...more };
}

describe("marks on an axis", () => {
  test.each([
    [0, 1],
    [-3e301, 1e299],
    [0, 4e-300],
    [1e-20, 3e-20],
    [41, 43],
    [1e15, 1e15 + 40],
  ])("are there between %d and %d, in order and inside", (low, high) => {
    const found = marksBetween(low, high, 8);
    expect(found.length).toBeGreaterThan(1);
    expect(found.every((each, i) => each >= low && each <= high && (i === 0 || each > found[i - 1]!))).toBe(true);
  });

  test("are round numbers", () => {
    expect(marksBetween(0, 0.7, 8)).toEqual([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]);
  });

  test("are none where there is no room or no end", () => {
    expect([marksBetween(1, 1, 8), marksBetween(-Infinity, Infinity, 8), marksBetween(NaN, 1, 8)]).toEqual([[], [], []]);
  });
});

describe("smoothing", () => {
  test("without weight nothing changes", () => expect(smooth([1, 2, null], 0)).toEqual([1, 2, null]));
  test("the start is not drawn towards zero", () =>
    expect(smooth([5, 5, 5], 0.9)).toEqual([5, 5, 5].map((v) => expect.closeTo(v))));
  test("gaps stay gaps, and the past is kept over them", () => {
    const [first, gap, last] = smooth([1, null, 3], 0.5);
    expect([first, gap]).toEqual([1, null]);
    expect(last).toBeCloseTo((0.25 * 1 + 0.5 * 3) / 0.75);
  });
  test("it stays between the lowest and the highest", () => {
    const values = Array.from({ length: 50 }, (_, i) => (i % 2 ? 1 : -1));
    for (const value of smooth(values, 0.97)) expect(Math.abs(value!)).toBeLessThanOrEqual(1);
  });
});

describe("cutting a curve of a report", () => {
  test("the neighbours outside stay, so that the line reaches the edges", () => {
    expect(cutCurve(curve([0, 1, 2, 3, 4, 5]), 15, 25, null).x).toEqual([10, 20, 30]);
  });
  test("marks outside are left out", () => {
    const marked = {
      ...curve([1, 2, 3]),
      marks: [
        { x: 0, what: "nan" as const },
        { x: 20, what: "inf" as const },
      ],
    };
    expect(cutCurve(marked, 5, 25, null).marks).toEqual([{ x: 20, what: "inf" }]);
  });
  test("how many values are in a part of a reduced curve is not made up", () => {
    const low = [0, 1, 2];
    const reduced = { ...curve([0, 1, 2]), total: 3000, inside: 3000, reduced: true, low, high: low };
    expect(cutCurve(reduced, null, null, null).inside).toBe(3000);
    expect(cutCurve(reduced, 15, 30, null).inside).toBeNaN();
  });
  test("too many points are reduced, and no peak is lost", () => {
    const values = Array.from({ length: 10_000 }, (_, i) => (i === 6789 ? 99 : i === 77 ? -99 : 0));
    const cut = cutCurve(curve(values), null, null, 100);
    expect(cut.x.length).toBeLessThanOrEqual(100);
    expect(cut.reduced).toBe(true);
    expect(Math.max(...(cut.high as number[]))).toBe(99);
    expect(Math.min(...(cut.low as number[]))).toBe(-99);
  });
  test("a stretch of nothing is nothing", () => {
    const cut = reduceCurve(curve([null, null, 1, 3]), 2);
    expect([cut.y, cut.low, cut.high]).toEqual([
      [null, 3],
      [null, 1],
      [null, 3],
    ]);
  });
  test("the place in a sorted list", () =>
    expect([0, 5, 10, 99].map((v) => lowerBound([1, 5, 9], v))).toEqual([0, 1, 3, 3]));
});

describe("ranges", () => {
  test("a single point gets room", () => expect(wholeRange([[3, 3]])).toEqual([2.5, 3.5]));
  test("nothing has no range", () => expect(wholeRange([null])).toBeNull());
  test("values outside the view do not count", () => {
    const [low, high] = valueRange([line([100, 1, 2, 3, 100])], [1, 2], false);
    expect([low, high]).toEqual([0.95, 2.05]);
  });
  test("bands count", () => {
    const band = { low: [-5, -5], high: [7, 7], strength: 1 };
    const [low, high] = valueRange([line([1, 1], { bands: [band] })], [0, 1], false);
    expect(low).toBeLessThan(-5);
    expect(high).toBeGreaterThan(7);
  });
  test("a flat line is in the middle", () => expect(valueRange([line([2, 2])], [0, 1], false)).toEqual([1.8, 2.2]));
  test("nothing but NaN still has axes", () => {
    expect(valueRange([line([null, null])], [0, 1], false)).toEqual([0, 1]);
    expect(valueRange([line([-1, 0])], [0, 1], true)).toEqual([0.1, 10]);
  });
  test("zooming stays around the mouse, and never leaves the whole", () => {
    expect(moved([0, 100], [0, 100], { zoom: 0.5, at: 25 })).toEqual([12.5, 62.5]);
    expect(moved([0, 10], [0, 100], { by: -50 })).toEqual([0, 10]);
    expect(moved([90, 100], [0, 100], { by: 50 })).toEqual([90, 100]);
    expect(moved([0, 60], [0, 100], { zoom: 2 })).toBeNull();
  });
  test("the nearest point has a value", () => expect(nearest(line([1, null, null, 4]), 1.4)).toBe(0));
  test("where there is no value there is no nearest", () => expect(nearest(line([null]), 0)).toBeNull());
});

describe("joining tables", () => {
  test("each keeps its own x, and a step that repeats stays", () => {
    const one = [
      [0, 1, 1, 3],
      [10, 11, 12, 13],
    ];
    const two = [
      [1, 2],
      [null, 5],
    ];
    expect(joined([one, two])).toEqual([
      [0, 1, 1, 2, 3],
      [10, 11, 12, undefined, 13],
      [undefined, null, undefined, 5, undefined],
    ]);
  });
  test("nothing beside something", () =>
    expect(
      joined([
        [[], []],
        [[1], [2]],
      ]),
    ).toEqual([[1], [undefined], [2]]));
});

describe("colours", () => {
  test("both signs have zero in the middle", () =>
    expect(scaleFor(-1, 3)).toEqual({ name: "signed", low: -3, high: 3 }));
  test("one sign uses the whole scale", () => expect(scaleFor(2, 3)).toEqual({ name: "plain", low: 2, high: 3 }));
  test("the ends are the ends", () => {
    expect(colourAt("plain", -1)).toEqual(colourAt("plain", 0));
    expect(colourAt("plain", 2)).toEqual(colourAt("plain", 1));
  });
  test("NaN has a colour of its own, also beside equal values", () => {
    const pixels = paint([1, null, 1], { name: "plain", low: 1, high: 1 });
    expect([...pixels.slice(0, 3)]).toEqual([...pixels.slice(8, 11)]);
    expect([...pixels.slice(4, 7)]).not.toEqual([...pixels.slice(0, 3)]);
  });
});
