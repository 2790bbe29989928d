import { beforeEach, describe, expect, it, vi } from "vitest";
import { Compare } from "./compare";
import { diff, difference, node } from "./compare/diff.fixtures";
import { answerWith, query, show } from "./testing";

const row = (id: string) => ({
  id,
  name: `run ${id}`,
  tags: {},
  started: 1,
  duration: 1,
  status: "finished",
  error: null,
  size: 1,
  path: "/",
  problem: null,
});
const runs = { base: "/", runs: [row("a1"), row("b1")] };
const call = {
  function: "train",
  module: "m",
  file: "train.py",
  line: 1,
  shard: "s",
  id: 4,
  rank: 0,
  thread: "",
  stage: null,
  step: null,
  start: 0,
  path: ["main"],
};
const first = difference({
  inputs: [
    { name: "x", a: "1", b: "1", equal: true },
    { name: "w", a: "2", b: "<i>3</i>", equal: false },
  ],
  a: { name: "loss", value: "1.0", file: "train.py", line: 7, call },
  multiple: 12.5,
  noise: 0.1,
  role: "propagator",
  reason: "its input `w` differs already",
});

beforeEach(() => void (location.hash = "#/compare"));

describe("the compare page", () => {
  it("asks for two runs first", async () => {
    answerWith({ runs });
    const page = show(<Compare run="" params={query()} />);
    await vi.waitFor(() => expect(page.querySelectorAll("option").length).toBeGreaterThan(4));
    expect(page.textContent).toContain("Choose two runs.");
  });

  it("says that two runs are equal", async () => {
    answerWith({ runs, diff: diff() });
    const page = show(<Compare run="" params={query("a=a1&b=b1&rtol=1")} />);
    await vi.waitFor(() =>
      expect(page.querySelector(".compare-headline.good")?.textContent).toContain("one and two are equal"),
    );
    expect(page.textContent).toContain("No value differs.");
  });

  it("tells the first difference in full, and what leads to it", async () => {
    const tree = {
      places: node("run", 1, { children: [node("train", 1, { children: [node("loss", 1)] })] }),
      steps: node("steps", 0),
    };
    const differences = { total: 120, offset: 0, limit: 50, items: [first] };
    const asked = answerWith({ runs, diff: diff({ first, differences, tree }, { equal: false, differ: 1 }) });
    const page = show(<Compare run="" params={query("a=a1&b=b1&reference=c1&only=loss&common=1")} />);
    await vi.waitFor(() => expect(page.querySelector(".diff-one")).not.toBeNull());
    const one = page.querySelector(".diff-one")!;
    expect(one.textContent).toContain("12.5 times");
    expect(one.textContent).toContain("passed on");
    expect(one.textContent).toContain("<i>3</i>");
    expect(one.querySelector("i")).toBeNull();
    const links = [...one.querySelectorAll("a")].map((each) => each.getAttribute("href"));
    expect(links).toEqual(["#/run/a1/tree?call=s%3A4", "#/run/a1/series?names=loss&runs=b1"]);
    expect(page.textContent).toContain("1 – 1 of 120");
    const query_ = asked.find((each) => each.has("reference"))!;
    expect([query_.get("only"), query_.get("common"), query_.get("limit")]).toEqual(["loss", "1", "50"]);
  });

  it("says why a comparison failed", async () => {
    answerWith({ runs });
    const page = show(<Compare run="" params={query("a=a1&b=gone")} />);
    await vi.waitFor(() => expect(page.querySelector("[role=alert]")?.textContent).toContain("There is no such run."));
  });
});
