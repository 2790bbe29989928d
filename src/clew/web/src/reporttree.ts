// Searching the tree of a report: there is no server to ask, so the calls that are inside are looked through here.

import type { Params } from "./router";
import type { Branch, CallNode, TreeNode } from "./types";

type Sibling = Exclude<TreeNode, { kind: "fold" }>;

const FILTERS = ["function", "name", "errors", "slow", "stage"];
const ROOTS = "";

export function isSearch(path: string, params: Params): boolean {
  return path.endsWith("/tree") && FILTERS.some((key) => params[key]);
}

/** All branches that a report holds, as one tree. Folds are left out: what they hold is there, or is not known. */
export class ReportTree {
  private readonly below = new Map<string, Map<number, Sibling>>(); // by the parent's id, then by place
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

  /** What fits under a parent, and what leads to something that fits: as the server answers. */
  search(params: Params): Branch {
    const { fits, kept } = this.chosen(params);
    const parent = String(params.parent ?? ROOTS);
    const name = this.nameOf(params);
    const shown = this.siblings(parent).filter((node) =>
      node.kind === "call" ? kept.has(node.id) : fits.has(parent) && (name === null || name(node.name)),
    );
    const offset = Number(params.offset ?? 0);
    const end = Math.min(shown.length, offset + Number(params.limit ?? 200));
    const nodes = shown
      .slice(offset, end)
      .map((node) => (node.kind === "call" ? { ...node, fits: fits.has(node.id) } : node));
    return { total: shown.length, offset, nodes, next: end < shown.length ? end : null, found: fits.size };
  }

  private siblings(parent: string): Sibling[] {
    const found = [...(this.below.get(parent) ?? [])];
    return found.sort(([one], [other]) => one - other).map(([, node]) => node);
  }

  private chosen(params: Params): { fits: Set<string>; kept: Set<string> } {
    const fitting = this.fitting(params);
    const calls = [...this.below.values()].flatMap((siblings) => [...siblings.values()]);
    const fits = new Set(calls.flatMap((node) => (node.kind === "call" && fitting(node) ? [node.id] : [])));
    const kept = new Set<string>();
    for (const call of fits) {
      for (let at = call; at !== ROOTS && !kept.has(at); at = this.parents.get(at) ?? ROOTS) kept.add(at);
    }
    return { fits, kept };
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

/** Those called just so, with their class or without; where there is none, those that hold the text. */
function meant(text: string, known: string[]): (name: string) => boolean {
  const glob = /[*?]/.test(text);
  const parts = text.split(/([*?])/).map((part) => (part === "*" ? ".*" : part === "?" ? "." : escaped(part)));
  const pattern = new RegExp(`^(?:.*\\.)?${parts.join("")}$`, "s");
  if (glob || known.some((name) => pattern.test(name))) return (name) => pattern.test(name);
  const wanted = text.toLowerCase();
  return (name) => name.toLowerCase().includes(wanted);
}

function escaped(text: string): string {
  return text.replace(/[.+^${}()|[\]\\]/g, "\\$&");
}
