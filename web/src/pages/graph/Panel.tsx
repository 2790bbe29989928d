// Details of the selected box: its result, its time, and its place in the code.

import { count, counted, duration, place } from "../../format";
import { link } from "../../router";
import type { Graph, GraphNode, RunId } from "../../types";
import { Button, ValueDetail } from "../../ui";
import { boxOf, type Box, type Group, type Groups, type View } from "./groups";

interface PanelProps {
  run: RunId;
  graph: Graph;
  groups: Groups;
  view: View;
  box: Box;
  open: ReadonlySet<string>;
  onToggle: (group: Group) => void;
  onLook: (box: string) => void;
  onClose: () => void;
}

export function Panel(props: PanelProps) {
  const { box, onClose } = props;
  return (
    <aside class="graph-panel" aria-label="The chosen node">
      <header>
        <div class="clip">
          <h2 class="mono clip" title={box.label}>
            {box.group?.path ?? box.label}
          </h2>
          <span class="muted">
            {box.group ? "module" : box.node!.kind}
            {box.node?.group ? ` in ${box.node.group}` : ""}
          </span>
        </div>
        <Button kind="quiet" icon="close" label="Close" onClick={onClose} />
      </header>
      {box.group ? <GroupFacts {...props} group={box.group} /> : <NodeFacts run={props.run} node={box.node!} />}
      <Neighbours {...props} />
    </aside>
  );
}

function GroupFacts({ group, onToggle }: { group: Group; onToggle: (group: Group) => void }) {
  return (
    <>
      <Facts
        rows={[
          ["nodes", count(group.size)],
          ["time", group.seconds === null ? null : duration(group.seconds)],
          ["calls", group.calls === null ? null : count(group.calls)],
        ]}
      />
      <Button onClick={() => onToggle(group)}>Open the module</Button>
    </>
  );
}

function NodeFacts({ run, node }: { run: RunId; node: GraphNode }) {
  return (
    <>
      <Facts
        rows={[
          ["time", node.seconds === null ? null : duration(node.seconds)],
          ["calls", node.calls === null ? null : count(node.calls)],
          ["function", node.place?.function ?? null],
          ["place", node.place?.file ? place(node.place) : null],
        ]}
      />
      {node.call !== null && (
        <a class="graph-call" href={link.call(run, node.call)}>
          Its call in the tree
        </a>
      )}
      {node.value && (
        <section>
          <h3>What it gave</h3>
          <ValueDetail value={node.value} />
        </section>
      )}
    </>
  );
}

function Facts({ rows }: { rows: [string, string | null][] }) {
  const filledRows = rows.filter((row): row is [string, string] => row[1] !== null);
  if (filledRows.length === 0) return null;
  return (
    <dl class="graph-facts">
      {filledRows.map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class="clip" title={text}>
            {text}
          </dd>
        </div>
      ))}
    </dl>
  );
}

const SHOWN = 30;

/** Its predecessors and successors in the current view. */
function Neighbours({ view, box, graph, groups, open, onLook }: PanelProps) {
  const label = new Map(view.boxes.map((each) => [each.id, each.group?.path ?? each.label]));
  const before = view.links.filter((each) => each.to === box.id && each.from !== box.id);
  const after = view.links.filter((each) => each.from === box.id && each.to !== box.id);
  const inside =
    box.group === null
      ? 0
      : graph.edges.filter((edge) =>
          [edge.from, edge.to].every((id) => groups.home.has(id) && boxOf(groups, open, id) === box.id),
        ).length;
  const list = (title: string, links: typeof before, other: "from" | "to") =>
    links.length > 0 && (
      <section>
        <h3>{title}</h3>
        <ul class="graph-neighbours">
          {links.slice(0, SHOWN).map((each) => (
            <li key={each[other]}>
              <button type="button" onClick={() => onLook(each[other])} class="mono clip">
                {label.get(each[other])}
              </button>
              <span class="muted clip" title={each.labels.join("\n")}>
                {each.labels.slice(0, 3).join(", ")}
              </span>
            </li>
          ))}
        </ul>
        {links.length > SHOWN && <p class="muted">and {count(links.length - SHOWN)} more</p>}
      </section>
    );
  return (
    <>
      {list("From", before, "from")}
      {list("To", after, "to")}
      {inside > 0 && <p class="muted">{counted(inside, "link")} inside it.</p>}
    </>
  );
}
