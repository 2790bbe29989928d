import type { RunRow } from "../../types";

export type Sort = "name" | "status" | "started" | "duration" | "size";
export interface Order {
  by: Sort;
  down: boolean;
}

const SORTS: Sort[] = ["name", "status", "started", "duration", "size"];

/** Parses an order: "-size" sorts by size, largest first. */
export function orderOf(text: string | null): Order {
  const by = SORTS.find((sort) => sort === text?.replace(/^-/, ""));
  return by ? { by, down: text!.startsWith("-") } : { by: "started", down: true };
}

export function isSort(order: Order, sort: Sort): boolean {
  return order.by === sort;
}

export function sorted(runs: RunRow[], { by, down }: Order): RunRow[] {
  const sign = down ? -1 : 1;
  return [...runs].sort((a, b) => sign * compared(a[by], b[by]));
}

function compared(a: string | number | null, b: string | number | null): number {
  if (typeof a === "string" && typeof b === "string") return a.localeCompare(b, undefined, { numeric: true });
  return Number(a ?? -Infinity) - Number(b ?? -Infinity) || 0;
}

/** Runs in which every word occurs in the name, id, status, a tag or the error. */
export function fitting(runs: RunRow[], search: string): RunRow[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return runs.filter((run) => {
    const tags = Object.entries(run.tags).map(([key, value]) => `${key}:${value} ${key}=${value} ${value}`);
    const text = [run.name, run.id, run.status, run.error ?? "", run.problem ?? "", ...tags].join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** Parses tags: one "key: value" per line; a line without a colon is a tag without a value. */
export function tagsOf(text: string): Record<string, string> {
  const pairs = text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean)
    .map((line): [string, string] => {
      const at = line.indexOf(":");
      return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    });
  return Object.fromEntries(pairs.filter(([key]) => key !== ""));
}

export function tagsText(tags: Record<string, string>): string {
  return Object.entries(tags)
    .map(([key, value]) => (value === "" ? key : `${key}: ${value}`))
    .join("\n");
}
