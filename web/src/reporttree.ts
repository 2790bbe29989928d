// Searches the tree of a report: without a server, the calls in the report are searched here.

import type { Params } from "./router";
import type { Branch, CallNode, TreeNode } from "./types";

type Sibling = Exclude<TreeNode, { kind: "fold" }>;

const FILTERS = ["function", "name", "errors", "slow", "stage"];
const ROOTS = "";

export function isSearch(path: string, params: Params): boolean {
  return path.endsWith("/tree") && FILTERS.some((key) => params[key]);
}

/** All branches of a report as one tree. Folds are left out: their calls are included, or not in the report. */
export class ReportTree {
  private readonly below = new Map<string, Map<number, Sibling>>(); // by the parent's id, then by position
  private readonly parents = new Map<string, string>();

  constructor(answers: Record<string, unknown>) {
    for (const [key, answer] of Object.entries(answers)) {
      const [path, search = ""] = key.split("?", 2);
      if (path!.endsWith("/tree")) this.add(new URLSearchParams(search).get("parent") ?? ROOTS, answer as Branch);
    }
  }

  private add(parent: string, branch: Branch): void {
    const siblings = this.below.get(parent) ?? new Map<number, Sibling>();
    this.below.set(parent, siblings);
    let place = branch.offset;
    for (const node of branch.nodes) {
      if (node.kind !== "fold") siblings.set(place, node);
      if (node.kind === "call") this.parents.set(node.id, parent);
      place += node.kind === "fold" ? node.count : 1;
    }
  }

  /** The matching calls under a parent and those that lead to matches, as the server answers. */
  search(params: Params): Branch {
    const { fits, shown: shownCalls } = this.selection(params);
    const parent = String(params.parent ?? ROOTS);
    const name = this.nameOf(params);
    const shown = this.siblings(parent).filter((node) =>
      node.kind === "call" ? shownCalls.has(node.id) : fits.has(parent) && (name === null || name(node.name)),
    );
    const offset = Number(params.offset ?? 0);
    const end = Math.min(shown.length, offset + Number(params.limit ?? 200));
    const nodes = shown
      .slice(offset, end)
      .map((node) => (node.kind === "call" ? { ...node, fits: fits.has(node.id) } : node));
    return { total: shown.length, offset, nodes, next: end < shown.length ? end : null, found: fits.size };
  }

  private siblings(parent: string): Sibling[] {
    const siblings = [...(this.below.get(parent) ?? [])];
    return siblings.sort(([one], [other]) => one - other).map(([, node]) => node);
  }

  private selection(params: Params): { fits: Set<string>; shown: Set<string> } {
    const fitting = this.fitting(params);
    const calls = [...this.below.values()].flatMap((siblings) => [...siblings.values()]);
    const fits = new Set(calls.flatMap((node) => (node.kind === "call" && fitting(node) ? [node.id] : [])));
    const shown = new Set<string>();
    for (const call of fits) {
      for (let at = call; at !== ROOTS && !shown.has(at); at = this.parents.get(at) ?? ROOTS) shown.add(at);
    }
    return { fits, shown };
  }

  private fitting(params: Params): (call: CallNode) => boolean {
    const { errors, slow, stage } = params;
    const called = params.function ? meant(String(params.function), this.functions()) : null;
    const name = this.nameOf(params);
    return (call) =>
      (called === null || called(call.function)) &&
      (name === null || this.siblings(call.id).some((node) => node.kind === "change" && name(node.name))) &&
      (!errors || call.error !== null) &&
      (!slow || (call.duration ?? 0) >= Number(slow)) &&
      (!stage || call.stage === stage);
  }

  private nameOf(params: Params): ((name: string) => boolean) | null {
    if (!params.name) return null;
    const all = [...this.below.values()].flatMap((siblings) => [...siblings.values()]);
    return meant(
      String(params.name),
      all.flatMap((node) => (node.kind === "change" ? [node.name] : [])),
    );
  }

  private functions(): string[] {
    const all = [...this.below.values()].flatMap((siblings) => [...siblings.values()]);
    return all.flatMap((node) => (node.kind === "call" ? [node.function] : []));
  }
}

/** Functions with exactly this name, with or without their class; else those whose name contains the text. */
function meant(text: string, known: string[]): (name: string) => boolean {
  const glob = /[*?]/.test(text);
  const parts = text.split(/([*?])/).map((part) => (part === "*" ? ".*" : part === "?" ? "." : escaped(part)));
  const pattern = new RegExp(`^(?:.*\\.)?${parts.join("")}$`, "s");
  if (glob || known.some((name) => pattern.test(name))) return (name) => pattern.test(name);
  const searchText = text.toLowerCase();
  return (name) => name.toLowerCase().includes(searchText);
}

function escaped(text: string): string {
  return text.replace(/[.+^${}()|[\]\\]/g, "\\$&");
}
