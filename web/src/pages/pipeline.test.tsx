import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Pipeline as Answer } from "../types";
import { Pipeline } from "./pipeline";
import { answerWith, query, show } from "./testing";

const value = (text: string, picture?: string) => ({ text, type: "str", kept: "full" as const, picture });
const pipeline: Answer = {
  traces: 2,
  trace: 0,
  head: ["2 items, 2 stages"],
  stages: [
    { name: "read", calls: 2 },
    { name: "model", calls: 1 },
  ],
  total: 2,
  offset: 0,
  items: [
    { id: "cat", source: "cat.png", loss: "0.5", files: [] },
    { id: "dog", source: "dog.png", loss: null, files: [] },
  ],
  cells: [
    {
      item: 0,
      stage: 0,
      function: "read",
      place: null,
      seconds: 0.001,
      where: "",
      row: null,
      ins: [{ name: "path", value: value("'cat.png'") }],
      outs: [{ name: "image", value: value("image", "data:image/png;base64,AA") }],
    },
    {
      item: 1,
      stage: 0,
      function: "read",
      place: null,
      seconds: null,
      where: "",
      row: null,
      ins: [],
      outs: [{ name: "image", value: value("<img src=x>") }],
    },
  ],
  findings: [{ kind: "k", stage: "read", text: "reads `twice`", remedy: "Read once." }],
};

beforeEach(() => void (location.hash = "#/run/r/pipeline"));

describe("the pipeline page", () => {
  it("shows items by stages, with pictures, findings and marks", async () => {
    answerWith({ pipeline });
    const page = show(<Pipeline run="p1" params={query()} />);
    await vi.waitFor(() => expect(page.querySelectorAll("tbody tr")).toHaveLength(2));
    expect([...page.querySelectorAll("thead .pipe-stage")].map((each) => each.textContent?.trim())).toEqual([
      "read",
      "model",
    ]);
    expect(page.querySelectorAll("tbody img")).toHaveLength(1);
    expect(page.textContent).toContain("<img src=x>");
    expect(page.textContent).toContain("Reads twice.");
    expect(page.querySelector("thead .pipe-mark")?.getAttribute("aria-label")).toContain("1 finding");
    expect(page.querySelectorAll("tbody .pipe-none")).toHaveLength(2);
  });

  it("opens the cell of the address to all that went in and out", async () => {
    answerWith({ pipeline });
    const page = show(<Pipeline run="p2" params={query("cell=0:0")} />);
    await vi.waitFor(() => expect(page.querySelector(".pipe-detail")?.textContent).toContain("'cat.png'"));
  });

  it("asks for the trace and the items of the address", async () => {
    const asked = answerWith({ pipeline: { ...pipeline, total: 500, offset: 60, trace: 1 } });
    const page = show(<Pipeline run="p3" params={query("trace=1&from=60")} />);
    await vi.waitFor(() => expect(page.textContent).toContain("61 – 62 of 500 items"));
    expect([asked[0].get("trace"), asked[0].get("offset")]).toEqual(["1", "60"]);
  });

  it("says what to do where there is none", async () => {
    answerWith({ pipeline: { ...pipeline, traces: 0, stages: [], items: [], cells: [] } });
    const page = show(<Pipeline run="p4" params={query()} />);
    await vi.waitFor(() => expect(page.textContent).toContain("This run has no pipeline."));
  });
});
