import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { dagreLayout } from "./dagre";
import { layOut, type WorkerLike } from "./deadline";
import { layeredLayout } from "./layered";
import type { Layout, LayoutInput } from "./shapes";

function input(links: string[], frames: Record<string, string> = {}): LayoutInput {
  const pairs = links.map((link) => link.split(">") as [string, string]);
  const ids = [...new Set(pairs.flat())];
  return {
    boxes: ids.map((id) => ({ id, width: 100, height: 40, frame: frames[id] ?? null })),
    frames: [...new Set(Object.values(frames))].map((id) => ({ id, frame: null })),
    links: pairs.map(([from, to]) => ({ from, to, text: 0 })),
  };
}

function overlaps(layout: Layout): string[] {
  const all = Object.entries(layout.boxes);
  const found: string[] = [];
  for (const [i, [a, one]] of all.entries()) {
    for (const [b, two] of all.slice(i + 1)) {
      const apart =
        Math.abs(one.x - two.x) >= (one.width + two.width) / 2 ||
        Math.abs(one.y - two.y) >= (one.height + two.height) / 2;
      if (!apart) found.push(`${a} ${b}`);
    }
  }
  return found;
}

const diamond = ["a>b", "a>c", "b>d", "c>d"];

describe("the full layout", () => {
  it("puts what follows below, without overlaps", () => {
    const layout = dagreLayout(input(diamond));
    expect(layout.boxes.a!.y).toBeLessThan(layout.boxes.b!.y);
    expect(layout.boxes.b!.y).toBeLessThan(layout.boxes.d!.y);
    expect(overlaps(layout)).toEqual([]);
    expect(layout.links.every((points) => points.length >= 2)).toBe(true);
  });

  it("draws a frame around what lies in an open group", () => {
    const layout = dagreLayout(input(diamond, { b: "G", c: "G" }));
    const frame = layout.frames.G!;
    for (const id of ["b", "c"]) {
      expect(Math.abs(layout.boxes[id]!.x - frame.x)).toBeLessThanOrEqual((frame.width - 100) / 2 + 0.01);
    }
  });

  it("bears cycles and links of a box to itself", () => {
    const layout = dagreLayout(input(["a>b", "b>a", "a>a"]));
    expect(layout.links).toHaveLength(3);
  });
});

describe("what is written on links", () => {
  const written = (links: string[]) => {
    const asked = input(links);
    return { ...asked, links: asked.links.map((link) => ({ ...link, text: 120 })) };
  };

  it("has a place of its own, on no box", () => {
    const asked = written(["a>b", "a>c", "a>d", "b>d", "c>d"]);
    const layout = dagreLayout(asked);
    for (const [index, at] of layout.texts.entries()) {
      const box = { x: at!.x, y: at!.y, width: 120, height: 14 };
      const others = { ...layout, boxes: { ...layout.boxes, [`text ${index}`]: box } };
      expect(overlaps(others)).toEqual([]);
    }
  });

  it("stands in the middle of a straight link", () => {
    const layout = layeredLayout(written(["a>b"]));
    expect(layout.texts[0]!.y).toBe((layout.boxes.a!.y + layout.boxes.b!.y) / 2);
  });
});

describe.each([
  ["full", dagreLayout],
  ["plain", layeredLayout],
])("a loop in the %s layout", (_, lay) => {
  it("leaves its box and comes back to it, and touches no other", () => {
    const asked = input(["r>a", "r>b", "a>a"], { a: "G", b: "G" });
    asked.links[2]!.text = 80;
    const layout = lay(asked);
    const box = layout.boxes.a!;
    const right = box.x + box.width / 2;
    expect(box.width).toBe(100);
    expect([layout.links[2]!.at(0)!.x, layout.links[2]!.at(-1)!.x]).toEqual([right, right]);
    const taken = { x: right + 53, y: box.y, width: 106, height: 20 };
    expect(overlaps({ ...layout, boxes: { ...layout.boxes, loop: taken } })).toEqual([]);
    expect(layout.texts[2]!.x).toBeGreaterThan(right);
  });

  it("leaves the other links on their boxes", () => {
    const layout = lay(input(["r>a", "a>a", "a>z"]));
    expect(layout.links[0]!.at(-1)!.x).toBeCloseTo(layout.boxes.a!.x);
    expect(layout.links[2]![0]!.x).toBeCloseTo(layout.boxes.a!.x);
  });
});

describe("the plain layout", () => {
  it("puts what follows below, without overlaps", () => {
    const layout = layeredLayout(input([...diamond, "a>d"]));
    expect(layout.boxes.c!.y).toBeLessThan(layout.boxes.d!.y);
    expect(overlaps(layout)).toEqual([]);
  });

  it("bears cycles", () => {
    const layout = layeredLayout(input(["a>b", "b>c", "c>a", "c>c"]));
    expect(overlaps(layout)).toEqual([]);
    expect(layout.boxes.a!.y).toBeLessThan(layout.boxes.c!.y);
  });

  it("breaks a layer too wide for any screen into rows", () => {
    const layout = layeredLayout(input(Array.from({ length: 1000 }, (_, i) => `root>n${i}`)));
    expect(layout.width).toBeLessThan(40 * 140);
    expect(Object.keys(layout.boxes)).toHaveLength(1001);
  });

  it("walks a chain of twenty thousand without running out of stack", () => {
    const layout = layeredLayout(input(Array.from({ length: 20_000 }, (_, i) => `n${i}>n${i + 1}`)));
    expect(Object.keys(layout.boxes)).toHaveLength(20_001);
  });

  it("has nothing to draw of nothing", () => {
    expect(layeredLayout(input([])).boxes).toEqual({});
  });
});

describe("the deadline", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function worker(answer?: (self: WorkerLike) => void) {
    const made: WorkerLike & { stopped: boolean } = {
      onmessage: null,
      onerror: null,
      stopped: false,
      postMessage: () => answer?.(made),
      terminate: () => {
        made.stopped = true;
      },
    };
    return made;
  }

  it("takes the full layout when it comes in time", async () => {
    const layout = dagreLayout(input(diamond));
    const one = worker((self) => self.onmessage?.({ data: { layout } } as MessageEvent));
    expect(await layOut(input(diamond), () => one)).toEqual({ layout, plain: null });
    expect(one.stopped).toBe(true);
  });

  it("stops the worker and draws the plain layout when it does not", async () => {
    const one = worker();
    const laid = layOut(input(diamond), () => one, 2000);
    await vi.advanceTimersByTimeAsync(2001);
    expect((await laid).plain).toBe("The full layout took longer than 2 s.");
    expect(Object.keys((await laid).layout.boxes)).toHaveLength(4);
    expect(one.stopped).toBe(true);
  });

  it("draws the plain layout where there are no workers or they fail", async () => {
    const none = () => {
      throw new Error("blocked");
    };
    expect((await layOut(input(diamond), none)).plain).toContain("no worker");
    const bad = worker((self) => self.onmessage?.({ data: { problem: "x" } } as MessageEvent));
    expect((await layOut(input(diamond), () => bad)).plain).toContain("failed");
  });

  it("stops the worker when nobody waits any more", () => {
    const one = worker();
    const stop = new AbortController();
    void layOut(input(diamond), () => one, 2000, stop.signal);
    stop.abort();
    expect(one.stopped).toBe(true);
  });
});
