import { describe, expect, it } from "vitest";
import { curve, fit, fitReadable, hit, panned, regionOf, resized, sees, seesLine, zoomed } from "./camera";

const view = { width: 800, height: 600 };
const graph = { width: 4000, height: 3000 };

describe("the camera on a graph", () => {
  it("shows the whole and enlarges a small one only a little", () => {
    const camera = fit(graph, view);
    expect(camera.zoom).toBeCloseTo(0.192);
    expect(camera.x).toBeLessThanOrEqual(0);
    expect(fit({ width: 10, height: 10 }, view).zoom).toBe(1.25);
  });

  it("begins at the top of a graph too large to be read as a whole", () => {
    const camera = fitReadable(graph, view);
    expect(camera.zoom).toBe(0.6);
    expect(camera.y).toBeLessThan(0);
  });

  it("keeps the point under the pointer where it is", () => {
    const before = { x: 10, y: 20, zoom: 1 };
    const after = zoomed(before, 2, 100, 50, graph, view);
    expect(after.x + 100 / after.zoom).toBeCloseTo(110);
    expect(after.y + 50 / after.zoom).toBeCloseTo(70);
  });

  it("zooms neither past the whole nor into nothing", () => {
    expect(zoomed({ x: 0, y: 0, zoom: 1 }, 1e9, 0, 0, graph, view).zoom).toBe(3);
    expect(zoomed({ x: 0, y: 0, zoom: 1 }, 1e-9, 0, 0, graph, view).zoom).toBeGreaterThan(0.05);
  });

  it("keeps the middle when the view is resized, and what was chosen in sight", () => {
    const camera = { x: 0, y: 0, zoom: 2 };
    const narrower = { width: 400, height: 600 };
    expect(resized(camera, view, narrower)).toEqual({ x: 100, y: 0, zoom: 2 });
    const seen = { x: 200, y: 150, width: 20, height: 20 };
    expect(resized(camera, view, narrower, seen)).toEqual({ x: 100, y: 0, zoom: 2 });
    const lost = { x: 380, y: 150, width: 20, height: 20 };
    expect(resized(camera, view, narrower, lost)).toEqual({ x: 280, y: 0, zoom: 2 });
  });

  it("moves by pixels of the screen", () => {
    expect(panned({ x: 0, y: 0, zoom: 2 }, 10, -4)).toEqual({ x: -5, y: 2, zoom: 2 });
  });

  it("sees what is in the view, and the same region while it moves a little", () => {
    const region = regionOf({ x: 110, y: 110, zoom: 1 }, view);
    expect(regionOf({ x: 115, y: 112, zoom: 1 }, view)).toEqual(region);
    expect(sees(region, { x: 500, y: 400, width: 10, height: 10 })).toBe(true);
    expect(sees(region, { x: 5000, y: 400, width: 10, height: 10 })).toBe(false);
    expect(
      seesLine(region, [
        { x: -500, y: 300 },
        { x: 5000, y: 310 },
      ]),
    ).toBe(true);
    expect(
      seesLine(region, [
        { x: 5000, y: 300 },
        { x: 6000, y: 310 },
      ]),
    ).toBe(false);
  });

  it("finds the box under the pointer", () => {
    const layout = {
      boxes: { a: { x: 50, y: 50, width: 40, height: 20 } },
      frames: {},
      links: [],
    texts: [],
      width: 0,
      height: 0,
    };
    expect(hit(layout, { x: 0, y: 0, zoom: 2 }, 100, 100)).toBe("a");
    expect(hit(layout, { x: 0, y: 0, zoom: 2 }, 100, 140)).toBeNull();
  });

  it("draws a line through its points, first to last", () => {
    expect(
      curve([
        { x: 0, y: 0 },
        { x: 1, y: 1 },
      ]),
    ).toBe("M0.0 0.0L1.0 1.0");
    const path = curve([
      { x: 0, y: 0 },
      { x: 0, y: 10 },
      { x: 20, y: 10 },
      { x: 20, y: 30 },
    ]);
    expect(path.startsWith("M0.0 0.0Q")).toBe(true);
    expect(path.endsWith("20.0 30.0")).toBe(true);
    expect(curve([])).toBe("");
  });
});
