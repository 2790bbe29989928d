import { beforeEach, expect, test } from "vitest";
import { joinNames, link, parse, query, setParams, splitNames } from "./router";

beforeEach(() => history.replaceState(null, "", "#/"));

test("an address leads to its page", () => {
  expect(parse("")).toMatchObject({ page: "runs" });
  expect(parse("#/")).toMatchObject({ page: "runs" });
  expect(parse("#/run/a%2Fb/series?names=loss")).toMatchObject({ page: "run", run: "a/b", tab: "series" });
  expect(parse("#/run/7")).toMatchObject({ page: "run", run: "7", tab: null });
  expect(parse("#/compare?a=1&b=2").params.get("b")).toBe("2");
});

test.each(["#/run/7/nothing", "#/run", "#/runs", "#/run/7/series/more"])("%s leads nowhere, and says so", (hash) => {
  expect(parse(hash).page).toBe("lost");
});

test("a stray % is taken as it is", () => expect(parse("#/run/100%/tree")).toMatchObject({ run: "100%" }));

test("links lead back to where they were made from", () => {
  const route = parse(link.call("run/1?", "0:41"));
  expect(route).toMatchObject({ page: "run", run: "run/1?", tab: "tree" });
  expect(route.params.get("call")).toBe("0:41");
});

test("what is not there is not in the query", () => {
  expect(query({ a: 1, b: null, c: undefined, d: "", e: false, f: 0 })).toBe("a=1&f=0");
});

test("names with commas and percents survive", () => {
  const names = ["loss", "x[0, 1]", "50%"];
  expect(splitNames(joinNames(names))).toEqual(names);
  expect(splitNames("a,b")).toEqual(["a", "b"]);
  expect(splitNames("")).toEqual([]);
});

test("setting one parameter leaves the others, and tells the page", () => {
  history.replaceState(null, "", "#/run/7/series?names=a&log=1");
  let told = 0;
  window.addEventListener("hashchange", () => told++, { once: true });
  setParams({ log: null, axis: "time" });
  expect(location.hash).toBe("#/run/7/series?names=a&axis=time");
  expect(told).toBe(1);
});
