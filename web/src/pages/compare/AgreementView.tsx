// Where two runs agree and differ: by place as a tree, by step as a strip.

import { useMemo, useState } from "preact/hooks";
import type { Agreement } from "../../difftypes";
import { count } from "../../format";
import { classes, Icon, VirtualList } from "../../ui";
import { heatOf, linesOf, num, openAtFirst, type TreeLine } from "./messages";

const ROW = 26;
const TALLEST = 16; // visible rows

export function Places({ root }: { root: Agreement }) {
  const [open, setOpen] = useState<ReadonlySet<string>>(() => openAtFirst(root));
  const [active, setActive] = useState(0);
  const lines = useMemo(() => linesOf(root, open), [root, open]);
  const toggle = (line: TreeLine, to = !line.open): void => {
    if (line.node.children.length === 0) return;
    const next = new Set(open);
    if (to) next.add(line.key);
    else next.delete(line.key);
    setOpen(next);
  };
  const onKey = (event: KeyboardEvent, index: number): boolean => {
    const line = lines[index];
    if (!line || !["ArrowLeft", "ArrowRight"].includes(event.key)) return false;
    toggle(line, event.key === "ArrowRight");
    return true;
  };
  return (
    <div class="agree-list" style={{ height: `${Math.min(lines.length, TALLEST) * ROW}px` }}>
      <VirtualList
        role="tree"
        label="Agreement by place"
        count={lines.length}
        row={ROW}
        active={Math.min(active, lines.length - 1)}
        onActive={setActive}
        onOpen={(index) => toggle(lines[index])}
        onKey={onKey}
        rowProps={(index) => ({
          "aria-level": lines[index].level + 1,
          "aria-expanded": lines[index].node.children.length > 0 ? lines[index].open : undefined,
        })}
        render={(index) => <Line line={lines[index]} />}
      />
    </div>
  );
}

function Line({ line }: { line: TreeLine }) {
  const { node } = line;
  return (
    <>
      <span style={{ width: `${line.level * 14}px` }} />
      <span class={classes("tree-arrow", line.open && "open", node.children.length === 0 && "none")} aria-hidden="true">
        {node.children.length > 0 && <Icon name="right" size={12} />}
      </span>
      <span class={`agree-dot agree-${heatOf(node)}`} aria-hidden="true" />
      <span class="mono clip agree-label" title={node.path}>
        {node.label}
      </span>
      <span class="agree-count" title={node.differ > 0 ? `largest difference ${num(node.worst)}` : undefined}>
        {node.differ === 0 ? (
          <span class="faint">{count(node.compared)} agree</span>
        ) : (
          `${count(node.differ)} of ${count(node.compared)}`
        )}
      </span>
      <span class="agree-worst">{node.differ > 0 ? num(node.worst, 2) : ""}</span>
    </>
  );
}

/** The agreement by step, as cells side by side. */
export function Steps({ root }: { root: Agreement }) {
  if (root.children.length === 0) return null;
  const first = root.children[0];
  const last = root.children[root.children.length - 1];
  return (
    <div class="agree-steps">
      <h3>By step</h3>
      <div class="agree-strip" role="img" aria-label={root.children.map(spoken).slice(0, 20).join("; ")}>
        {root.children.map((node) => (
          <span
            key={node.label}
            class={`agree-${heatOf(node)}`}
            style={{ flexGrow: Math.max(1, node.compared) }}
            title={spoken(node)}
          />
        ))}
      </div>
      <p class="agree-ends faint">
        <span>{first.label.split(" … ")[0]}</span>
        <span>{last.label.split(" … ").pop()}</span>
      </p>
    </div>
  );
}

function spoken(node: Agreement): string {
  const worst =
    node.differ > 0
      ? `${count(node.differ)} of ${count(node.compared)} differ, at most by ${num(node.worst)}`
      : "all agree";
  return `step ${node.label}: ${worst}`;
}
