import { describe, expect, test } from "vitest";
import { ago, bytes, count, counted, duration, number, shape, shortPath, when } from "./format";

describe("numbers", () => {
  test.each([
    [0, "0"],
    [1234567, "1,234,567"],
    [-12, "-12"],
    [0.1 + 0.2, "0.3"],
    [3.14159265, "3.1416"],
    [0.00001234, "1.234e-5"],
    [12345678.9, "1.2346e7"],
    [1e300, "1e300"],
    [Number.NaN, "NaN"],
    [Infinity, "Inf"],
    [-Infinity, "-Inf"],
    [null, "–"],
    [undefined, "–"],
  ])("%s is written %s", (value, text) => expect(number(value)).toBe(text));

  test("whole numbers are never rounded", () => expect(number(123456789)).toBe("123,456,789"));
  test("one is not many", () => {
    expect(counted(1, "value")).toBe("1 value");
    expect(counted(2000, "entry", "entries")).toBe("2,000 entries");
    expect(count(null)).toBe("–");
  });
});

describe("durations", () => {
  test.each([
    [0, "0 s"],
    [2.5e-9, "2.5 ns"],
    [4.2e-5, "42 µs"],
    [0.0123, "12.3 ms"],
    [0.9999, "1 s"],
    [59.99, "1 min"],
    [61, "1 min 1 s"],
    [3599.9, "1 h"],
    [3725, "1 h 2 min"],
    [90000, "1 d 1 h"],
    [-2, "-2 s"],
    [null, "–"],
  ])("%s seconds are %s", (seconds, text) => expect(duration(seconds)).toBe(text));
});

describe("sizes", () => {
  test.each([
    [0, "0 B"],
    [999, "999 B"],
    [1000, "1 kB"],
    [84_200_000, "84.2 MB"],
    [999_999, "1 MB"],
    [2e18, "2000 PB"],
  ])("%s is %s", (size, text) => expect(bytes(size)).toBe(text));
});

test("times are told in the reader's zone, and as how long ago", () => {
  expect(when(1_700_000_000)).toMatch(/^2023-11-1[345] \d\d:\d\d:\d\d$/);
  expect(when(null)).toBe("–");
  expect(ago(940, 1000)).toBe("1 min ago");
  expect(ago(999, 1000)).toBe("just now");
  expect(ago(0, 8 * 86400)).toBe("8 d ago");
});

test("shapes are written as Python writes them", () => {
  expect([shape([]), shape([5]), shape([64, 10])]).toEqual(["()", "(5,)", "(64, 10)"]);
});

test("long paths keep their end", () => {
  expect(shortPath("/home/me/project/train.py")).toBe("…/project/train.py");
  expect(shortPath("train.py")).toBe("train.py");
});
