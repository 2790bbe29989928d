import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Source } from "../types";
import { answerWith, press, query, show } from "./testing";
import { Tree } from "./tree";
import { branch, call, change } from "./tree/tree.fixtures";

const main = call("m", { function: "main", inside: 2 });
const inner = [call("s", { function: "step", error: "ValueError: <b>bad</b>" }), change("loss", "0.5")];
const tree = (asked: URLSearchParams) => (asked.get("parent") === "m" ? branch(inner) : branch([main]));
const source: Source = {
  file: "train.py",
  first: 7,
  lines: ["def step(x):", "    loss = x  # half", "    return loss"],
  missing: null,
  total: 4,
  at: 4,
  values: [{ line: 8, name: "loss", value: { text: "0.5", type: "float", kept: "full" }, nth: 4, of: 4, now: true }],
};
const detail = { call: inner[0], parents: [{ id: "m", function: "main" }], callers: [] };

beforeEach(() => void (location.hash = "#/run/r/tree"));

describe("the tree page", () => {
  it("opens a call by keys and shows markup as text", async () => {
    answerWith({ tree });
    const page = show(<Tree run="r-keys" params={query()} />);
    const list = await vi.waitFor(() => page.querySelector("[role=treeitem]")!.closest("[role=tree]")!);
    await vi.waitFor(() => expect(page.textContent).toContain("main"));
    press(list, "ArrowRight");
    await vi.waitFor(() => expect(page.textContent).toContain("ValueError: <b>bad</b>"));
    expect(page.querySelector("b")).toBeNull();
    expect(page.querySelector("[aria-expanded=true]")?.getAttribute("aria-level")).toBe("1");
  });

  it("opens the way to the call in the address, and shows its source with its values", async () => {
    answerWith({ tree, call: detail, source });
    const page = show(<Tree run="r-link" params={query("call=s")} />);
    await vi.waitFor(() => expect(page.querySelector(".vrow.chosen")?.textContent).toContain("step"));
    await vi.waitFor(() => expect(page.querySelector(".code-line.now")?.textContent).toContain("loss0.54/4"));
    expect(page.querySelector(".py-comment")?.textContent).toBe("# half");
  });

  it("steps through the changes, and says so in the address", async () => {
    answerWith({ tree, call: detail, source });
    location.hash = "#/run/r/tree?call=s";
    const page = show(<Tree run="r-step" params={query("call=s")} />);
    const back = () => page.querySelector<HTMLButtonElement>("[aria-label='One change back (,)']");
    await vi.waitFor(() => expect(back()).not.toBeNull());
    back()!.click();
    expect(location.hash).toContain("at=3");
  });

  it("asks with the filters of the address, and tells how many fit", async () => {
    const asked = answerWith({ tree: branch([main], { found: 17 }) });
    const page = show(<Tree run="r-filter" params={query("function=step&errors=1&slow=0.1")} />);
    await vi.waitFor(() => expect(page.textContent).toContain("17 calls found"));
    expect([asked[0].get("function"), asked[0].get("errors"), asked[0].get("slow")]).toEqual(["step", "1", "0.1"]);
  });

  it("says what to do where there are no calls, or no run", async () => {
    answerWith({ tree: branch([]) });
    const empty = show(<Tree run="r-empty" params={query()} />);
    await vi.waitFor(() => expect(empty.textContent).toContain("No calls were recorded."));
    answerWith({});
    const gone = show(<Tree run="r-gone" params={query()} />);
    await vi.waitFor(() => expect(gone.textContent).toContain("There is no such run."));
    expect(gone.textContent).toContain("Look again.");
  });
});
