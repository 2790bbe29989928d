// What a key does on a row of the tree, following WAI-ARIA for role=tree. The list itself handles up and down.

import { opens } from "./branches";
import { rowAtLine, type NodeRow, type Rows } from "./rows";

export type Act =
  | { kind: "go"; line: number }
  | { kind: "open"; key: string }
  | { kind: "close"; key: string }
  | { kind: "choose"; key: string };

/** The action of a key at the cursor's `line`, or null if it has none. */
export function actOf(key: string, rows: Rows, line: number): Act | null {
  const row = rows.rows[rowAtLine(rows, line)];
  if (!row) return null;
  if (row.kind === "node") return actOnNode(key, rows, row, line);
  return key === "ArrowLeft" ? toParent(rows, row.parentKey) : null;
}

function actOnNode(key: string, rows: Rows, row: NodeRow, line: number): Act | null {
  switch (key) {
    case "ArrowRight":
      if (!opens(row.item.node)) return null;
      return row.open ? { kind: "go", line: line + 1 } : { kind: "open", key: row.key };
    case "ArrowLeft":
      return row.open ? { kind: "close", key: row.key } : toParent(rows, row.parentKey);
    case "Enter":
    case " ":
      return actOfChoice(row);
  }
  return null;
}

/** The action of a click or Enter; on a fold it opens the fold. */
export function actOfChoice(row: NodeRow): Act {
  if (row.item.node.kind !== "fold") return { kind: "choose", key: row.key };
  return { kind: row.open ? "close" : "open", key: row.key };
}

function toParent(rows: Rows, parentKey: string | null): Act | null {
  const index = parentKey === null ? undefined : rows.place.get(parentKey);
  return index === undefined ? null : { kind: "go", line: rows.starts[index] };
}
