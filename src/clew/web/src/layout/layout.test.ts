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
    links: pairs.map(([from, to]) => ({ from, to })),
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
