// Trees made up for the tests.

import type { Branch, CallDetail, CallNode, ChangeNode, FoldNode, TreeNode } from "../../types";
import type { BranchQuery } from "./search";

export function call(id: string, more: Partial<CallNode> = {}): CallNode {
  return {
    kind: "call",
    id,
    function: `f${id}`,
    file: "train.py",
    line: 3,
    start: 0,
    duration: 1,
    error: null,
    thread: "",
    rank: 0,
    step: null,
    stage: null,
    args: [],
    result: null,
    inside: 0,
    fits: true,
    ...more,
  };
}

export function change(name: string, text = "1"): ChangeNode {
  return { kind: "change", name, line: 4, step: null, index: 0, value: { text, type: "int", kept: "full" } };
}

export function fold(offset: number, count: number): FoldNode {
  return { kind: "fold", offset, count, times: count, text: `step ×${count}`, seconds: 2, errors: 0 };
}

export function branch(nodes: TreeNode[], more: Partial<Branch> = {}): Branch {
  return { total: nodes.length, offset: 0, nodes, next: null, found: null, ...more };
}

/** A server over lists of siblings. Where it may, and there are more than ten, it folds all behind the third. */
export class Server {
  asked: BranchQuery[] = [];

  constructor(private readonly children: Record<string, TreeNode[]>) {}

  ask = async (query: BranchQuery): Promise<Branch> => {
    this.asked.push(query);
    const all = this.children[query.parent ?? ""] ?? [];
    const { offset, limit } = query;
    if (query.fold && all.length > 10 && all.length <= 1000 && offset === 0) {
      return branch([...all.slice(0, 3), fold(3, all.length - 3)], { total: all.length });
    }
    const next = offset + limit < all.length ? offset + limit : null;
    return branch(all.slice(offset, offset + limit), { total: all.length, offset, next });
  };

  detailOf = async (id: string): Promise<CallDetail> => {
    const path = this.pathTo(id, "");
    const all = Object.values(this.children).flat();
    const node = all.find((each): each is CallNode => each.kind === "call" && each.id === id);
    if (!node || !path) throw new Error(`there is no call ${id}`);
    return { call: node, parents: path.map((parent) => ({ id: parent, function: parent })), callers: [] };
  };

  private pathTo(id: string, under: string): string[] | null {
    for (const node of this.children[under] ?? []) {
      if (node.kind !== "call") continue;
      if (node.id === id) return [];
      const inner = this.pathTo(id, node.id);
      if (inner) return [node.id, ...inner];
    }
    return null;
  }
}
