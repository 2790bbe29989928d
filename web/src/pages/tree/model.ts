// The state of the tree while it is browsed: what is loaded, open and requested. It queries the server through `ask`
// and calls `changed` whenever there is something new to draw.

import type { Branch, CallDetail, Refusal } from "../../types";
import { emptyPart, foldPart, itemAt, itemOfCall, itemsOf, withBranch, type Item, type Part } from "./branches";
import { ROOT, rowsOf, type Rows } from "./rows";
import { findSibling, type Ask } from "./search";

export const PAGE = 200;
const OPENED_BY_ITSELF = 40; // branches opened automatically because they lead to matches of a filter
const FOLD_COSTS = 10; // branches that opening a fold counts for
const SOON = 1_000_000; // the most calls and changes in a call that opens automatically

/** What opens automatically. */
export type Leads = "nowhere" | "to calls" | "to values";

export class TreeModel {
  readonly parts = new Map<string, Part>();
  readonly open = new Set<string>();
  readonly problems = new Map<string, Refusal>();
  found: number | null = null;
  private readonly pending = new Map<string, Promise<void>>();
  private made: Rows | null = null;
  private opened = 0;
  private gone = false;

  constructor(
    private readonly ask: Ask,
    private readonly changed: () => void,
    private readonly leads: Leads = "nowhere",
  ) {
    this.parts.set(ROOT, emptyPart(ROOT, null));
  }

  /** Stop notifying: the page shows another tree. */
  leave(): void {
    this.gone = true;
  }

  rows(): Rows {
    this.made ??= rowsOf(this);
    return this.made;
  }

  async start(): Promise<void> {
    await this.load(ROOT, 0);
    const only = this.onlyRoot();
    if (only !== null && this.leads === "nowhere") await this.openKey(`call ${only}`);
  }

  /** The single root call, if there is one and it is small enough to load at once. */
  onlyRoot(): string | null {
    const { to, stretches } = this.parts.get(ROOT)!;
    const node = to === 1 ? stretches[0]?.items[0]?.node : undefined;
    return node?.kind === "call" && node.inside <= SOON ? node.id : null;
  }

  openKey(key: string): Promise<void> {
    const row = this.rowOf(key);
    if (!row) return Promise.resolve();
    return this.openItem(row.item, this.parts.get(row.partKey)?.parent ?? null);
  }

  close(key: string): void {
    this.open.delete(key);
    this.tell();
  }

  /** Load what is missing around a sibling; repeated calls for the same place send one request. */
  load(partKey: string, at: number, fresh = false): Promise<void> {
    const part = this.parts.get(partKey);
    if (!part) return Promise.resolve();
    const offset = part.from + Math.floor((at - part.from) / PAGE) * PAGE;
    const name = `${partKey} ${offset}`;
    const under = this.pending.get(name);
    if (under) return under;
    if (!fresh && itemAt(part, at)) return Promise.resolve();
    const start = fresh ? offset : firstMissing(part, offset, at);
    const limit = part.folding ? PAGE : Math.min(PAGE, (part.to ?? Infinity) - start);
    const query = { parent: part.parent, offset: start, limit, fold: part.folding };
    const work = this.ask(query)
      .then(
        (branch) => this.take(partKey, branch),
        (problem: unknown) => this.fail(partKey, problem),
      )
      .finally(() => this.pending.delete(name));
    this.pending.set(name, work);
    return work;
  }

  again(partKey: string): Promise<void> {
    this.problems.delete(partKey);
    this.tell();
    return this.load(partKey, this.parts.get(partKey)?.from ?? 0, true);
  }

  /** The run has grown: request again the open parts that may have grown. */
  async refresh(): Promise<void> {
    const grown = [...this.parts.values()].filter(
      (part) => part.folding && (part.key === ROOT || this.open.has(part.key)),
    );
    for (const part of grown.slice(0, 20)) {
      const last = part.stretches[part.stretches.length - 1];
      await this.load(part.key, last ? last.from : part.from, true);
    }
  }

  /** Open all parents of a call, and return the key of its row, or null if it is not found. */
  async reveal(detail: CallDetail, detailOf: (call: string) => Promise<CallDetail>): Promise<string | null> {
    const path = [...detail.parents.map((parent) => parent.id), detail.call.id];
    let partKey = ROOT;
    let parent: string | null = null;
    let item: Item | null = null;
    for (const call of path) {
      item = await this.findCall(partKey, parent, call, () => startOf(call, detail, detailOf));
      if (!item) return null;
      if (call !== detail.call.id) await this.openItem(item, parent);
      partKey = item.key;
      parent = call;
    }
    this.tell();
    return item?.key ?? null;
  }

  private async findCall(
    partKey: string,
    parent: string | null,
    call: string,
    start: () => Promise<number>,
  ): Promise<Item | null> {
    await this.load(partKey, this.parts.get(partKey)?.from ?? 0);
    const part = this.parts.get(partKey);
    if (!part || part.to === null) return null;
    const loaded = itemOfCall(part, call) ?? this.inOpenFolds(part, call);
    if (loaded) return loaded;
    const at = await findSibling(this.ask, parent, part.to, call, await start());
    return at === null ? null : this.showSibling(partKey, parent, at, call);
  }

  private inOpenFolds(part: Part, call: string): Item | undefined {
    for (const stretch of part.stretches) {
      for (const item of stretch.items) {
        const inner = item.node.kind === "fold" && this.open.has(item.key) ? this.parts.get(item.key) : undefined;
        const found = inner && itemOfCall(inner, call);
        if (found) return found;
      }
    }
    return undefined;
  }

  private async showSibling(partKey: string, parent: string | null, at: number, call: string): Promise<Item | null> {
    await this.load(partKey, at);
    const part = this.parts.get(partKey);
    const item = part && itemAt(part, at);
    if (!item) return null;
    if (item.node.kind !== "fold") return item;
    await this.openItem(item, parent);
    await this.load(item.key, at);
    const inner = this.parts.get(item.key);
    return (inner && itemOfCall(inner, call)) ?? null;
  }

  private rowOf(key: string) {
    const rows = this.rows();
    const row = rows.rows[rows.place.get(key) ?? -1];
    return row?.kind === "node" ? row : undefined;
  }

  private openItem(item: Item, parent: string | null): Promise<void> {
    const { node } = item;
    if (node.kind === "change") return Promise.resolve();
    if (!this.parts.has(item.key)) {
      this.parts.set(item.key, node.kind === "call" ? emptyPart(item.key, node.id) : foldPart(item, parent));
    }
    this.open.add(item.key);
    this.tell();
    return this.load(item.key, node.kind === "fold" ? item.at : 0);
  }

  private take(partKey: string, branch: Branch): void {
    const part = this.parts.get(partKey);
    if (!part || this.gone) return;
    if (!part.folding && branch.nodes.some((node) => node.kind === "fold")) {
      // The fold would contain itself, and be opened forever.
      this.fail(partKey, new Error("The answer is folded again: what is in it cannot be shown."));
      return;
    }
    this.problems.delete(partKey);
    const now = withBranch(part, branch);
    this.parts.set(partKey, now);
    this.growFolds(now);
    if (branch.found !== null) this.found = branch.found;
    this.tell();
    if (this.leads !== "nowhere") this.followLeads(now, branch);
  }

  /** In a running run, an open fold may have gained siblings. */
  private growFolds(part: Part): void {
    for (const { items } of part.stretches) {
      for (const item of items) {
        const inner = item.node.kind === "fold" ? this.parts.get(item.key) : undefined;
        if (inner && inner.to !== item.at + item.span) this.parts.set(item.key, { ...inner, to: item.at + item.span });
      }
    }
  }

  /** With a filter, a call that does not fit is only there for what lies in it: it opens by itself, and so do folds. A
   * search for values leads into the calls they lie in. */
  private followLeads(part: Part, branch: Branch): void {
    for (const { key, node, ...item } of itemsOf(branch, part.parent)) {
      if (this.opened >= OPENED_BY_ITSELF) return;
      if (node.kind === "change" || this.open.has(key)) continue;
      if (node.kind === "call" && (node.inside === 0 || (node.fits && this.leads === "to calls"))) continue;
      this.opened += node.kind === "fold" ? FOLD_COSTS : 1;
      void this.openItem({ key, node, ...item }, part.parent);
    }
  }

  private fail(partKey: string, problem: unknown): void {
    if (this.gone) return;
    this.problems.set(partKey, refusalOf(problem));
    this.tell();
  }

  private tell(): void {
    this.made = null;
    if (!this.gone) this.changed();
  }
}

function refusalOf(problem: unknown): Refusal {
  const { refusal } = problem as { refusal?: Refusal };
  return refusal ?? { error: problem instanceof Error ? problem.message : String(problem), remedy: "", slug: "" };
}

/** The offset to start at, so that siblings before `at` that are already loaded are not requested again. */
function firstMissing(part: Part, offset: number, at: number): number {
  const before = part.stretches.filter((stretch) => stretch.to > offset && stretch.to <= at);
  return before.reduce((start, stretch) => Math.max(start, stretch.to), offset);
}

async function startOf(
  call: string,
  detail: CallDetail,
  detailOf: (call: string) => Promise<CallDetail>,
): Promise<number> {
  return call === detail.call.id ? detail.call.start : (await detailOf(call)).call.start;
}
