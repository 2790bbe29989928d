import { setParams } from "../../router";
import type { Range } from "../../plot/lines";
import type { Axis } from "../../types";

/** The options for showing curves, which are kept in the page's address. */
export interface Options {
  axis: Axis;
  log: boolean;
  split: boolean; // one plot per name
  weight: number; // the weight of smoothing
}

export const AXES: { value: Axis; text: string }[] = [
  { value: "step", text: "Step" },
  { value: "time", text: "Time" },
  { value: "index", text: "Index" },
];

export function axisOf(text: string | null): Axis {
  return AXES.find((each) => each.value === text)?.value ?? "step";
}

export function optionsOf(params: URLSearchParams): Options {
  const weight = Number(params.get("smooth") ?? 0);
  return {
    axis: axisOf(params.get("axis")),
    log: params.get("log") === "1",
    split: params.get("split") === "1",
    weight: weight > 0 && weight < 1 ? weight : 0,
  };
}

export function setOptions({ axis, log, split, weight }: Partial<Options>): void {
  setParams({
    ...(axis !== undefined && { axis: axis === "step" ? null : axis }),
    ...(log !== undefined && { log: log ? 1 : null }),
    ...(split !== undefined && { split: split ? 1 : null }),
    ...(weight !== undefined && { smooth: weight || null }),
  });
}

/** The zoomed range in the address. */
export function rangeOf(params: URLSearchParams): Range | null {
  const [from, to] = [params.get("from"), params.get("to")].map((text) => (text === null ? NaN : Number(text)));
  return from < to ? [from, to] : null;
}
