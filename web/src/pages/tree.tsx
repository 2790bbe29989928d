// The calls of a run, as a tree that opens as one goes, and beside it the source of the call one stands on.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, runPath } from "../api";
import { setParams } from "../router";
import type { CallDetail, RunId } from "../types";
import { Button, classes, Empty, Notice, Problem, useKeys, VirtualList } from "../ui";
import { AFTER_ALL, momentOf } from "./source/SourcePanel";
import { changesUpTo } from "./tree/branches";
import { CallPanel } from "./tree/CallPanel";
import { actOf, actOfChoice, type Act } from "./tree/keys";
import { anyFilter, filtersOf, NO_FILTERS } from "./tree/filters";
import { FilterBar } from "./tree/FilterBar";
import type { TreeModel } from "./tree/model";
import { NoneFound } from "./tree/NoneFound";
import { ROOT, rowAtLine, type NodeRow, type Row, type Rows } from "./tree/rows";
import { RowView, spoken } from "./tree/RowView";
import { useTree } from "./tree/useTree";
import { useNarrow } from "./useNarrow";
import "../styles/tree.css";

const ROW = 28;

export function Tree({ run, params }: { run: RunId; params: URLSearchParams }) {
  const filters = filtersOf(params);
  const call = params.get("call");
  const model = useTree(run, filters);
  const narrow = useNarrow();
  const { cursor, setCursor, lost } = useCursor(run, model, call);
  const close = () => setParams({ ...AFTER_ALL, call: null });
  useKeys(call === null ? {} : { Escape: close });
  const rows = model.rows();
  const seen = call ?? (narrow ? null : model.onlyRoot()); // there is room beside the tree, and no choice
  const empty = rows.lines === 0;
  const failed = rows.rows[0]?.kind === "note" ? (model.problems.get(ROOT) ?? null) : null;
  return (
    <div class={classes("tree-page", seen && "with-call")}>
      <section class="tree-side" aria-label="Calls">
        <FilterBar run={run} filters={filters} found={model.found} />
        {lost && <LostCall filtered={anyFilter(filters)} />}
        {empty && anyFilter(filters) && <NoneFound filters={filters} />}
        {empty && !anyFilter(filters) && (
          <Empty title="No calls were recorded.">
            Record those inside a function with <code>@clew.follow</code>, or run a script with <code>clew run</code>.
          </Empty>
        )}
        {failed && anyFilter(filters) && <NoneFound filters={filters} told={failed} />}
        {failed && !anyFilter(filters) && <Problem error={failed} retry={() => void model.again(ROOT)} />}
        {!empty && !failed && <TreeList model={model} rows={rows} chosen={seen} cursor={cursor} onCursor={setCursor} />}
      </section>
      <section class="tree-call" aria-label="The chosen call">
        {seen === null ? (
          <Empty title="Choose a call.">Its source stands here, with the values that were recorded at each line.</Empty>
        ) : (
          <CallPanel
            run={run}
            call={seen}
            at={momentOf(params)}
            onAt={(at) => setParams({ ...AFTER_ALL, at })}
            onClose={call === null ? undefined : close}
          />
        )}
      </section>
    </div>
  );
}

/** The row the keys stand on. A call that came with the address is searched for and shown. */
function useCursor(run: RunId, model: TreeModel, call: string | null) {
  const [cursor, setCursor] = useState<Cursor>({ key: null, line: 0 });
  const [lost, setLost] = useState(false);
  const chosen = useRef<string | null>(null);
  useEffect(() => {
    setLost(false);
    const key = call === null ? null : `call ${call}`;
    if (key === null || (chosen.current === key && model.rows().place.has(key))) return;
    if (model.rows().place.has(key)) {
      setCursor({ key, line: 0 });
      return;
    }
    let ended = false;
    const detailOf = (id: string) => get<CallDetail>(runPath(run, "call"), { call: id });
    const show = async (): Promise<void> => {
      const found = await model.reveal(await detailOf(call!), detailOf);
      if (ended) return;
      if (found) setCursor({ key: found, line: 0 });
      setLost(found === null);
    };
    show().catch(() => undefined); // a call that is not there is told beside the tree
    return () => void (ended = true);
  }, [call, model]);
  const move = (next: Cursor) => {
    chosen.current = next.key;
    setCursor(next);
  };
  return { cursor, setCursor: move, lost };
}

interface Cursor {
  key: string | null; // of a node: it stays on it while the tree grows
  line: number; // where it stands on no node
}

function lineOf(rows: Rows, cursor: Cursor): number {
  const index = cursor.key === null ? undefined : rows.place.get(cursor.key);
  return index === undefined ? Math.min(cursor.line, rows.lines - 1) : rows.starts[index];
}

function cursorAt(rows: Rows, line: number): Cursor {
  const row = rows.rows[rowAtLine(rows, line)];
  return { key: row?.kind === "node" ? row.key : null, line };
}

interface TreeListProps {
  model: TreeModel;
  rows: Rows;
  chosen: string | null;
  cursor: Cursor;
  onCursor: (cursor: Cursor) => void;
}

function TreeList({ model, rows, chosen, cursor, onCursor }: TreeListProps) {
  const active = lineOf(rows, cursor);
  const rowAt = (line: number): Row => rows.rows[rowAtLine(rows, line)];
  const act = (what: Act): void => {
    if (what.kind === "go") onCursor(cursorAt(rows, what.line));
    else if (what.kind === "open") void model.openKey(what.key);
    else if (what.kind === "close") model.close(what.key);
    else choose(model, rows, what.key);
  };
  const toggle = useCallback(
    (row: NodeRow) => (row.open ? model.close(row.key) : void model.openKey(row.key)),
    [model],
  );
  const again = useCallback((part: string) => void model.again(part), [model]);
  const onKey = (event: KeyboardEvent, line: number): boolean => {
    const action = actOf(event.key, rows, line);
    if (action) act(action);
    return action !== null;
  };
  const onOpen = (line: number): void => {
    const row = rowAt(line);
    if (row?.kind === "node") act(actOfChoice(row));
  };
  return (
    <VirtualList
      class="tree-list"
      role="tree"
      label="Calls and changes"
      count={rows.lines}
      row={ROW}
      active={active}
      onActive={(line) => onCursor(cursorAt(rows, line))}
      onOpen={onOpen}
      onKey={onKey}
      onRange={(first, last) => loadHoles(model, rows, first, last)}
      rowProps={(line) => propsOf(rowAt(line), chosen)}
      render={(line) => <RowView row={rowAt(line)} line={line} onToggle={toggle} onAgain={again} />}
    />
  );
}

/** A change belongs to the call it hangs on: choosing it shows that call, just after it where that is known. */
function choose(model: TreeModel, rows: Rows, key: string): void {
  const row = rows.rows[rows.place.get(key) ?? -1];
  if (row?.kind !== "node") return;
  const part = model.parts.get(row.partKey);
  if (row.item.node.kind === "call") setParams({ ...AFTER_ALL, call: row.item.node.id });
  else setParams({ ...AFTER_ALL, call: callAround(rows, row.parentKey), at: part ? changesUpTo(part, row.item.at) : null });
}

function callAround(rows: Rows, key: string | null): string | null {
  const row = key === null ? undefined : rows.rows[rows.place.get(key) ?? -1];
  if (row?.kind !== "node") return null;
  return row.item.node.kind === "call" ? row.item.node.id : callAround(rows, row.parentKey);
}

function loadHoles(model: TreeModel, rows: Rows, first: number, last: number): void {
  for (let line = first; line < last;) {
    const index = rowAtLine(rows, line);
    const row = rows.rows[index];
    const end = rows.starts[index + 1] ?? rows.lines;
    if (row?.kind !== "hole") {
      line = end;
      continue;
    }
    const from = row.from + line - rows.starts[index];
    const to = row.from + Math.min(end, last) - rows.starts[index] - 1;
    void model.load(row.partKey, from);
    void model.load(row.partKey, to);
    line = end;
  }
}

function propsOf(row: Row | undefined, chosen: string | null): Record<string, unknown> {
  if (row?.kind !== "node")
    return { "aria-level": (row?.level ?? 0) + 1, "aria-label": row && spoken(row), class: row?.kind };
  const { node, at, span } = row.item;
  const selected = node.kind === "call" && node.id === chosen;
  const branch = node.kind === "fold" || (node.kind === "call" && node.inside > 0);
  return {
    "aria-level": row.level + 1,
    "aria-expanded": branch ? row.open : undefined,
    "aria-selected": selected,
    "aria-posinset": at + 1,
    "aria-setsize": row.setSize + span - 1,
    "aria-label": spoken(row),
    class: classes(node.kind, selected && "chosen", node.kind === "call" && node.error !== null && "failed"),
  };
}

function LostCall({ filtered }: { filtered: boolean }) {
  return (
    <Notice kind="info">
      The chosen call is not among those shown here.{" "}
      {filtered && (
        <Button small onClick={() => setParams(NO_FILTERS)}>
          Show all calls
        </Button>
      )}
    </Notice>
  );
}
