// Pages with made-up answers: what they show, and that markup in values is text.

import { render } from "preact";
import type { ComponentChildren } from "preact";
import { afterEach, expect, test, vi } from "vitest";
import { App } from "../app";
import { LiveContext } from "../api";
import type { Curve, Overview, Point, RunRow, Slice, TensorCurve } from "../types";
import { Ledger } from "./ledger";
import { flat } from "./ledger/flat";
import { Pipeline } from "./pipeline";
import { Runs } from "./runs";
import { fitting, orderOf, sorted, tagsOf, tagsText } from "./runs/order";
import { lineOf } from "./series/curves";
import { footText } from "./series/foot";
import { optionsOf, rangeOf } from "./series/options";
import { matching, NameList } from "./series/NameList";
import { PointPanel } from "./series/PointPanel";
import { bandsOf } from "./tensor";
import { columnsToRows } from "./tensor/Histogram";
import { cellPlace, isImage } from "./tensor/Slice";
import { planeOf } from "./tensor/Slicer";
import { Segmented } from "../ui";
import { statsRows } from "../ui/Value";

const EVIL = '<img src=x onerror="alert(1)">';

const RUN: RunRow = {
  id: "r1",
  name: EVIL,
  tags: { model: "<b>x</b>" },
  started: 1_700_000_000,
  duration: 61,
  status: "failed",
  error: "<script>alert(2)</script>",
  size: 1_234_000,
  path: "/runs/r1",
  problem: null,
};

const OVERVIEW: Overview = {
  run: RUN,
  version: 1,
  counts: { changes: 10, calls: 2, names: 2, functions: 1, threads: 1, ranks: 1 },
  names: [
    { name: "loss", kind: "number", count: 3, functions: ["train"] },
    { name: EVIL, kind: "number", count: 1, functions: [] },
  ],
  functions: [],
  pages: { series: true, tree: true, pipeline: false, graph: false },
  ledger: [{ kind: "skipped", subject: EVIL, text: "no source" }],
  problems: ["shard 2 is <i>damaged</i>"],
  meta: { python: "3.11", git: { note: EVIL }, argv: ["a", "b"] },
};

function answering(answers: Record<string, unknown>): { url: string; body: string | null }[] {
  const asked: { url: string; body: string | null }[] = [];
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    asked.push({ url, body: (init.body as string) ?? null });
    const answer = answers[url.split("?")[0]];
    return answer === undefined ? new Response("{}", { status: 404 }) : new Response(JSON.stringify(answer));
  });
  return asked;
}

function show(children: ComponentChildren): void {
  const live = { version: 1, status: "finished" as const, overview: OVERVIEW };
  render(<LiveContext.Provider value={live}>{children}</LiveContext.Provider>, document.body);
}

const until = (check: () => void) => vi.waitFor(check, { timeout: 5000, interval: 5 });
const text = () => document.body.textContent ?? "";
const button = (name: string) =>
  [...document.querySelectorAll<HTMLButtonElement>("button")].find(
    (each) => !each.disabled && (each.textContent?.trim() === name || each.getAttribute("aria-label") === name),
  );
const says = (...parts: string[]) => until(() => parts.forEach((part) => expect(text()).toContain(part)));
const press = async (name: string) => {
  await until(() => expect(button(name)).toBeDefined());
  button(name)!.click();
};

function onlyText(): void {
  expect(document.querySelector("img, script, b > x, i, body b")).toBeNull();
}

afterEach(() => {
  render(null, document.body);
  vi.unstubAllGlobals();
  history.replaceState(null, "", "#/");
});

test("runs are listed, and markup in names, tags and errors is text", async () => {
  answering({ "/api/runs": { base: "/runs", runs: [RUN, { ...RUN, id: "r2", name: "other", error: null }] } });
  show(<Runs params={new URLSearchParams()} />);
  await until(() => expect(document.querySelectorAll("tbody tr")).toHaveLength(2));
  await says(EVIL, "model: <b>x</b>", "<script>alert(2)</script>", "1 min 1 s", "1.23 MB");
  onlyText();
});

test("two runs are chosen to be compared, a third takes the place of the first", async () => {
  answering({ "/api/runs": { base: "/runs", runs: ["1", "2", "3"].map((id) => ({ ...RUN, id, name: `run ${id}` })) } });
  show(<Runs params={new URLSearchParams()} />);
  await says("run 3");
  for (const box of document.querySelectorAll<HTMLInputElement>("tbody input")) box.click();
  await press("Compare");
  expect(location.hash).toBe("#/compare?a=2&b=3");
});

test("Enter opens the run the keys stand on, but not when it presses a button", async () => {
  answering({ "/api/runs": { base: "", runs: [RUN] } });
  show(<Runs params={new URLSearchParams()} />);
  await says(EVIL);
  const key = (name: string, on: Element = document.body) =>
    on.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  key("j");
  await until(() => expect(document.querySelector("tr.active")).not.toBeNull());
  key("Enter", button(`What to do with ${EVIL}`)!);
  expect(location.hash).toBe("#/");
  key("Enter");
  expect(location.hash).toBe("#/run/r1");
});

test("a run is deleted only after it was confirmed", async () => {
  const asked = answering({ "/api/runs": { base: "", runs: [RUN] }, "/api/run/r1/delete": { deleted: true } });
  show(<Runs params={new URLSearchParams()} />);
  await press(`What to do with ${EVIL}`);
  await press("Delete …");
  await says("cannot be undone");
  expect(asked.filter(({ body }) => body !== null)).toEqual([]);
  await press("Delete");
  await until(() => expect(document.querySelector("[role=dialog]")).toBeNull());
  expect(asked.filter(({ body }) => body !== null)).toEqual([
    { url: "/api/run/r1/delete", body: JSON.stringify({ name: EVIL }) },
  ]);
});

test("an empty folder says how to record a run", async () => {
  answering({ "/api/runs": { base: "/runs", runs: [] } });
  show(<Runs params={new URLSearchParams()} />);
  await says("clew run train.py");
});

test("a run that cannot be opened says why, with a way to try again", async () => {
  vi.stubGlobal("fetch", async () => {
    return new Response(JSON.stringify({ error: "The run is gone.", remedy: "Choose another.", slug: "no-run" }), {
      status: 404,
    });
  });
  history.replaceState(null, "", "#/run/gone/series");
  render(<App />, document.body);
  await says("The run is gone.");
  expect(button("Try again")).toBeDefined();
});

test("the ledger shows problems, lines and metadata, and searches them", async () => {
  show(<Ledger run="r1" params={new URLSearchParams()} />);
  await says("shard 2 is <i>damaged</i>", "skipped", "git.note", EVIL, "a b");
  onlyText();
  show(<Ledger run="r1" params={new URLSearchParams("search=python")} />);
  await until(() => {
    expect([...document.querySelectorAll("tbody tr")].map((row) => row.textContent)).toEqual(["python3.11"]);
  });
  show(<Ledger run="r1" params={new URLSearchParams("search=zebra")} />);
  await says("Nothing fits");
});

test("metadata of any depth becomes rows", () => {
  expect(flat({ a: { b: [1, null] }, c: [], d: {}, e: [{ f: true }] })).toEqual([
    ["a.b", "1 none"],
    ["c", ""],
    ["d", "{}"],
    ["e[0].f", "true"],
  ]);
});

test("names are text, and found by name or function", async () => {
  show(<NameList run="r1" kinds={["number"]} names={OVERVIEW.names} chosen={["loss"]} onOnly={() => {}} />);
  await says(EVIL);
  onlyText();
  expect(matching(OVERVIEW.names, "TRAIN lo").map((row) => row.name)).toEqual(["loss"]);
  const rate = { ...OVERVIEW.names[0], name: "rate" };
  expect(matching([OVERVIEW.names[0], rate], "ra").map((row) => row.name)).toEqual(["rate", "loss"]);
});

test("a point leads to its line and its call", async () => {
  const value = { text: EVIL, type: "str", kept: "full" as const };
  const place = { file: "/home/me/train.py", line: 48, function: "train" };
  const code = `loss = f("${EVIL}")`;
  const point: Point = { name: "loss", index: 0, total: 3, step: "7", time: 1.5, value, place, code, call: "0:41" };
  answering({ "/api/run/r1/point": point });
  show(<PointPanel run="r1" name="loss" axis="step" x={7} side="right" onClose={() => {}} />);
  await says(EVIL, "me/train.py:48", code);
  expect(document.querySelector("a")?.getAttribute("href")).toBe("#/run/r1/tree?call=0%3A41&of=loss&nth=0");
  onlyText();
});

test("on every page of a damaged run it is said that something cannot be read", async () => {
  answering({ "/api/run/r1": OVERVIEW, "/api/run/r1/version": { version: 1, status: "failed" } });
  location.hash = "#/run/r1/graph";
  show(<App />);
  await says("A part of this run cannot be read; what is whole is shown. shard 2 is <i>damaged</i>.");
  expect(document.querySelector(".notice a")?.getAttribute("href")).toBe("#/run/r1/ledger");
  onlyText();
});

test("what is code in the ledger looks like code", async () => {
  const ledger = [{ kind: "non-finite", subject: "w", text: "`attention` made a `<b>NaN</b>`" }];
  const live = { version: 1, status: "finished" as const, overview: { ...OVERVIEW, ledger } };
  render(
    <LiveContext.Provider value={live}>
      <Ledger run="r1" params={new URLSearchParams()} />
    </LiveContext.Provider>,
    document.body,
  );
  await says("attention made a <b>NaN</b>");
  expect([...document.querySelectorAll("td code")].map((each) => each.textContent)).toEqual(["attention", "<b>NaN</b>"]);
});

test("a damaged run does not claim that everything was recorded", async () => {
  const live = { version: 1, status: "finished" as const, overview: { ...OVERVIEW, ledger: [] } };
  render(
    <LiveContext.Provider value={live}>
      <Ledger run="r1" params={new URLSearchParams()} />
    </LiveContext.Provider>,
    document.body,
  );
  await says("No entry can be read");
  expect(text()).not.toContain("Everything that was asked for");
});

test("a run without a pipeline is not asked for one", async () => {
  const asked = answering({});
  show(<Pipeline run="r1" params={new URLSearchParams()} />);
  await says("This run has no pipeline.");
  expect(asked).toEqual([]);
});

test("bytes in channels are an image at once, other arrays are numbers first", () => {
  const picture = "data:image/png;base64,AA";
  const seen = (dtype: string, shape: number[]) => isImage({ dtype, shape, picture });
  expect([seen("uint8", [32, 48, 3]), seen("torch.uint8", [3, 32, 48])]).toEqual([true, true]);
  expect([seen("float32", [32, 48, 3]), seen("uint8", [4, 4]), seen("uint8", [2, 2, 3])]).toEqual([false, false, false]);
  expect(isImage({ dtype: "uint8", shape: [32, 48, 3], picture: null })).toBe(false);
});

test("of one choice among several, arrows go to the next that can be chosen", async () => {
  const chosen = vi.fn();
  const options = ["a", "b", "c"].map((value) => ({ value, text: value, disabled: value === "b" }));
  show(<Segmented label="Which" value="a" options={options} onChange={chosen} />);
  const [first, , last] = [...document.querySelectorAll("[role=radio]")] as HTMLElement[];
  expect([first.tabIndex, last.tabIndex]).toEqual([0, -1]);
  first.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, cancelable: true }));
  expect([chosen.mock.calls, document.activeElement]).toEqual([[["c"]], last]);
});

test("runs are sorted, with those that have no time at the end", () => {
  const runs = [2, null, 10].map((started, i) => ({ ...RUN, id: String(i), name: `run ${i}`, started }));
  expect(sorted(runs, orderOf(null)).map((run) => run.started)).toEqual([10, 2, null]);
  expect(sorted(runs, orderOf("started")).map((run) => run.started)).toEqual([null, 2, 10]);
  expect(orderOf("-size")).toEqual({ by: "size", down: true });
  expect(orderOf("-nonsense")).toEqual({ by: "started", down: true });
  expect(fitting(runs, "model:<b> failed").length).toBe(3);
  expect(fitting(runs, "model:zebra")).toEqual([]);
});

test("tags are lines of text", () => {
  const tags = { model: "a: b", best: "" };
  expect(tagsOf(tagsText(tags))).toEqual(tags);
  expect(tagsOf("\n : x\n  spaced  :  out ")).toEqual({ spaced: "out" });
});

test("a smoothed curve has the values themselves behind it", () => {
  const curve = {
    name: "a",
    axis: "step" as const,
    total: 2,
    inside: 2,
    range: null,
    reduced: false,
    x: [0, 1],
    y: [0, 1],
    marks: [],
    marksTotal: 0,
  };
  expect(lineOf("a", "a", "#000", curve, 0.5)).toMatchObject({ faint: [0, 1] });
  expect(lineOf("a", "a", "#000", curve, 0).faint).toBeUndefined();
  expect(lineOf("a", "a", "#000", { ...curve, low: [0, 0], high: [1, 1] }, 0).bands).toHaveLength(1);
});

test("a plot says what it leaves out", () => {
  const curve = {
    total: 9,
    inside: 3,
    x: [1, 2],
    y: [-1, 2],
    reduced: true,
    marks: [],
    marksTotal: 2,
  } as unknown as Curve;
  const said = footText([curve], "step", "index", true);
  for (const part of ["3 of 9 values", "2 points", "0 of them marked", "1 point not above 0", "no numbers"]) {
    expect(said).toContain(part);
  }
});

test("nonsense in the address is not taken for a setting", () => {
  const options = optionsOf(new URLSearchParams("axis=wrong&smooth=7&log=yes"));
  expect(options).toEqual({ axis: "step", log: false, split: false, weight: 0 });
  expect(rangeOf(new URLSearchParams("from=5&to=2"))).toBeNull();
  expect(rangeOf(new URLSearchParams("from=2&to=5"))).toEqual([2, 5]);
});

test("a tensor with NaN is marked, and has no band where there is no mean", () => {
  const data = {
    name: "w",
    x: [0, 1],
    mean: [1, null],
    std: [2, null],
    min: [0, null],
    max: [3, null],
    nan: [0, 5],
    inf: [0, 1],
  };
  const line = bandsOf(data as unknown as TensorCurve, "#000");
  expect(line.bands[1]).toMatchObject({ low: [-1, null], high: [3, null] });
  expect(line.marks).toEqual([{ x: 1, what: "nan", text: "5 NaN, 1 Inf" }]);
});

test("zeros are a fraction, and NaN is told only where there is some", () => {
  const stats = { min: 0, mean: null, nan: 0, inf: 2, zeros: 0.4783 };
  expect(statsRows(stats)).toEqual([
    ["min", "0"],
    ["mean", "–"],
    ["zeros", "47.8 %"],
    ["Inf", "2"],
  ]);
});

test("a histogram's highest bin is drawn at the top", () => {
  expect(
    columnsToRows(
      [
        [0, 1],
        [0, 0],
      ],
      2,
    ),
  ).toEqual([Math.log1p(1), 0, 0, 0]);
});

test("a cell knows its place in the tensor", () => {
  const slice = { at: [3, ":", ":"], shape: [8, 10, 100], rows: 10, cols: 50 } as unknown as Slice;
  expect(cellPlace(slice, 4, 7)).toEqual(["3", "4", "14…"]);
  expect(cellPlace({ ...slice, at: [":"], shape: [50], rows: 1 } as Slice, 0, 7)).toEqual(["7"]);
});

test("another plane keeps the place along the other dimensions", () => {
  expect(planeOf([5, 2, ":", ":"], 0, 3)).toEqual([":", 2, 0, ":"]);
});
