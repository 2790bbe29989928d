// One row of the tree: a call, a change, a fold, or a placeholder while loading.

import { memo } from "preact/compat";
import { count, counted, duration } from "../../format";
import type { CallNode, ChangeNode, FoldNode, Named } from "../../types";
import { Button, classes, Icon, Value } from "../../ui";
import { opens } from "./branches";
import type { NodeRow, Row } from "./rows";

interface RowProps {
  row: Row;
  line: number; // in the list on the screen
  onToggle: (row: NodeRow) => void;
  onAgain: (partKey: string) => void;
}

/** Redrawn only if the row changes, which keeps scrolling fast. */
export const RowView = memo(function RowView({ row, line, onToggle, onAgain }: RowProps) {
  return (
    <>
      <span class="tree-indent" style={{ width: `${Math.min(row.level, 24) * 14}px` }} aria-hidden="true" />
      {row.kind === "node" && <NodeView row={row} onToggle={onToggle} />}
      {row.kind === "hole" && <span class="tree-hole" style={{ width: `${90 + ((line * 37) % 120)}px` }} />}
      {row.kind === "note" && <NoteView problem={row.problem} again={() => onAgain(row.partKey)} />}
    </>
  );
});

function NoteView({ problem, again }: { problem: string | null; again: () => void }) {
  if (problem === null) return <span class="tree-note faint">Loading …</span>;
  return (
    <span class="tree-note bad">
      <Icon name="warn" size={14} />
      <span class="clip" title={problem}>
        {problem}
      </span>
      <Button small onClick={again}>
        Try again
      </Button>
    </span>
  );
}

function NodeView({ row, onToggle }: { row: NodeRow; onToggle: (row: NodeRow) => void }) {
  const { node } = row.item;
  const toggle = (event: MouseEvent) => {
    event.stopPropagation(); // a click on the row selects the call
    onToggle(row);
  };
  return (
    <>
      {opens(node) ? (
        <span class={classes("tree-arrow", row.open && "open")} onClick={toggle} aria-hidden="true">
          <Icon name="right" size={12} />
        </span>
      ) : (
        <span class="tree-arrow none" aria-hidden="true" />
      )}
      {node.kind === "call" && <CallView node={node} scale={row.scale} />}
      {node.kind === "change" && <ChangeView node={node} />}
      {node.kind === "fold" && <FoldView node={node} scale={row.scale} />}
    </>
  );
}

function CallView({ node, scale }: { node: CallNode; scale: number }) {
  return (
    <>
      <span class={classes("tree-text tree-parts", !node.fits && "tree-leads")}>
        <span class="tree-function clip">{node.function}</span>
        <span class="tree-args clip">
          (
          {node.args.map((arg, i) => (
            <Arg key={arg.name} arg={arg} first={i === 0} />
          ))}
          )
        </span>
        {node.error !== null && <span class="tree-outcome tree-error clip">✗ {node.error}</span>}
        {node.result && node.error === null && (
          <span class="tree-outcome clip">
            <span class="faint">→ </span>
            <Value value={node.result} />
          </span>
        )}
      </span>
      <Tags node={node} />
      <Time seconds={node.duration} scale={scale} bad={node.error !== null} />
    </>
  );
}

function Arg({ arg, first }: { arg: Named; first: boolean }) {
  return (
    <>
      {!first && ", "}
      <span class="tree-arg">{arg.name}=</span>
      <Value value={arg.value} />
    </>
  );
}

function Tags({ node }: { node: CallNode }) {
  return (
    <span class="tree-tags">
      {node.stage !== null && (
        <span class="chip" title="Stage">
          {node.stage}
        </span>
      )}
      {node.step !== null && (
        <span class="chip" title="Step">
          step {node.step}
        </span>
      )}
      {node.thread !== "" && (
        <span class="chip" title="Thread">
          {node.thread}
        </span>
      )}
      {node.rank !== 0 && (
        <span class="chip" title="Rank">
          rank {node.rank}
        </span>
      )}
    </span>
  );
}

function ChangeView({ node }: { node: ChangeNode }) {
  return (
    <>
      <span class="tree-text clip">
        <span class="tree-name">{node.name}</span>
        <span class="faint"> = </span>
        <Value value={node.value} />
      </span>
      {node.step !== null && (
        <span class="tree-tags">
          <span class="chip" title="Step">
            step {node.step}
          </span>
        </span>
      )}
      <span class="tree-line faint">line {node.line}</span>
    </>
  );
}

function FoldView({ node, scale }: { node: FoldNode; scale: number }) {
  return (
    <>
      <span class="tree-text clip">
        <span class="tree-fold">{node.text}</span>
        <span class="faint"> {node.times === node.count ? "folded" : `${counted(node.count, "sibling")} folded`}</span>
        {node.errors > 0 && <span class="tree-error"> {counted(node.errors, "error")}</span>}
      </span>
      <Time seconds={node.seconds} scale={scale} bad={node.errors > 0} />
    </>
  );
}

/** The duration, and its share of the parent's as a bar. */
function Time({ seconds, scale, bad }: { seconds: number | null; scale: number; bad: boolean }) {
  const share = seconds !== null && scale > 0 ? Math.min(1, seconds / scale) : 0;
  const hint = seconds === null ? "It had not ended" : `${Math.round(share * 100)} % of the call around it`;
  return (
    <span class="tree-time" title={hint}>
      <span class="tree-track" aria-hidden="true">
        <span
          class={classes("tree-bar", bad && "bad")}
          style={{ width: `${Math.max(share * 100, share > 0 ? 3 : 0)}%` }}
        />
      </span>
      <span class="tree-seconds">{seconds === null ? "open" : duration(seconds)}</span>
    </span>
  );
}

/** The text of the row for screen readers. */
export function spoken(row: Row): string {
  if (row.kind === "hole") return `${count(row.count)} not loaded`;
  if (row.kind === "note") return row.problem ?? "loading";
  const { node } = row.item;
  if (node.kind === "call")
    return `${node.function}, ${duration(node.duration)}${node.error ? `, failed: ${node.error}` : ""}`;
  if (node.kind === "change") return `${node.name} is ${node.value.text}`;
  return `${node.text}, ${counted(node.count, "sibling")} folded`;
}
