// The operators of a run, or which function called which, as a diagram of modules that open.

import { useMemo, useState } from "preact/hooks";
import { runPath, useAnswer } from "../api";
import { count, counted } from "../format";
import { setParams } from "../router";
import type { Graph as Answer, RunId } from "../types";
import { Button, Empty, Loading, Notice, Problem, Search, Select, useKeys } from "../ui";
import { Canvas } from "./graph/Canvas";
import { boxOf, groupsOf, matching, nodeId, openAtFirst, pathTo, viewOf, type Group } from "./graph/groups";
import { Panel } from "./graph/Panel";
import { useLayout } from "./graph/useLayout";
import "../styles/graph.css";

export function Graph({ run, params }: { run: RunId; params: URLSearchParams }) {
  const which = params.get("which");
  const { data, error, reload } = useAnswer<Answer>(runPath(run, "graph"), { which }, { live: true });
  if (error && !data) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading what="Reading the graph" />;
  if (data.nodes.length === 0) {
    return (
      <Empty title="This run has no graph.">
        Record the calls of a function with <code>@clew.follow</code>: then it shows which called which.
      </Empty>
    );
  }
  return <Shown key={data.which} run={run} graph={data} />;
}

function Shown({ run, graph }: { run: RunId; graph: Answer }) {
  const groups = useMemo(() => groupsOf(graph.nodes), [graph]);
  const [open, setOpen] = useState<ReadonlySet<string>>(() => openAtFirst(groups));
  const [chosen, setChosen] = useState<string | null>(null);
  const [search, setSearch] = useState("");
  const [look, setLook] = useState<{ box: string; turn: number } | null>(null);
  const view = useMemo(() => viewOf(graph, groups, open), [graph, groups, open]);
  const { drawn, busy } = useLayout(view);
  const matches = useMemo(() => matching(graph, search), [graph, search]);
  const hits = useMemo(() => new Set(matches.map((id) => boxOf(groups, open, id))), [matches, open]);
  const box = view.boxes.find((each) => each.id === chosen) ?? null;

  const toggle = (group: Group): void => {
    const next = new Set(open);
    if (!next.delete(group.path)) next.add(group.path);
    setOpen(next);
    setChosen(`module ${group.path}`);
  };
  const openBox = (id: string): void => {
    const group = view.boxes.find((each) => each.id === id)?.group;
    if (group) toggle(group);
    else setChosen(id);
  };
  const lookAt = (id: string): void => {
    setChosen(id);
    setLook((old) => ({ box: id, turn: (old?.turn ?? 0) + 1 }));
  };
  useKeys(chosen === null ? {} : { Escape: () => setChosen(null) });
  const [turn, setTurn] = useState(-1);
  const searchFor = (text: string): void => {
    setSearch(text);
    setTurn(-1);
  };
  const nextHit = (): void => {
    if (matches.length === 0) return;
    const at = (turn + 1) % matches.length;
    setTurn(at);
    setOpen(new Set([...open, ...pathTo(groups, groups.home.get(matches[at]) ?? null)]));
    lookAt(nodeId(matches[at]));
  };
  return (
    <div class="graph">
      <div class="bar graph-bar">
        {graph.graphs > 1 && <Which graph={graph} />}
        <span class="graph-told">
          {graph.what === "calls" ? "Which function called which" : "Recorded operators"}
          <span class="muted">
            {" "}
            · {counted(graph.nodes.length, "node")}, {count(view.boxes.length)} shown
          </span>
        </span>
        <OpenButtons groups={[...groups.all.keys()]} open={open} boxes={graph.nodes.length} onOpen={setOpen} />
        <Search
          value={search}
          label="Search nodes"
          onChange={searchFor}
          onKeyDown={(event) => event.key === "Enter" && nextHit()}
        />
        {search && (
          <span class="graph-found" role="status">
            <span class="muted">
              {turn >= 0 ? `${turn + 1} of ` : ""}
              {count(matches.length)}
            </span>
            <Button small disabled={matches.length === 0} onClick={nextHit}>
              Next
            </Button>
          </span>
        )}
      </div>
      {drawn?.plain && !busy && (
        <Notice kind="info">{drawn.plain} This is a simpler one: boxes in layers, without frames.</Notice>
      )}
      <div class="graph-panes">
        {drawn ? (
          <Canvas
            drawn={drawn}
            chosen={chosen}
            hits={hits}
            searching={search.trim() !== ""}
            look={look}
            onChoose={setChosen}
            onOpen={openBox}
            onToggle={toggle}
          />
        ) : (
          <Loading what="Laying out the graph" />
        )}
        {busy && drawn && (
          <span class="graph-busy" role="status">
            Laying out …
          </span>
        )}
        {box && (
          <Panel
            run={run}
            graph={graph}
            groups={groups}
            view={view}
            box={box}
            open={open}
            onToggle={toggle}
            onLook={lookAt}
            onClose={() => setChosen(null)}
          />
        )}
      </div>
    </div>
  );
}

const ALL = 400; // nodes that may be opened all at once

function OpenButtons(props: {
  groups: string[];
  open: ReadonlySet<string>;
  boxes: number;
  onOpen: (open: Set<string>) => void;
}) {
  if (props.groups.length === 0) return null;
  return (
    <>
      {props.open.size > 0 && (
        <Button small onClick={() => props.onOpen(new Set())}>
          Close all modules
        </Button>
      )}
      {props.open.size < props.groups.length && props.boxes <= ALL && (
        <Button small onClick={() => props.onOpen(new Set(props.groups))}>
          Open all
        </Button>
      )}
    </>
  );
}

function Which({ graph }: { graph: Answer }) {
  const options = Array.from({ length: graph.graphs }, (_, i) => ({
    value: String(i),
    text: `Graph ${i + 1} of ${graph.graphs}`,
  }));
  return (
    <Select label="Graph" value={String(graph.which)} options={options} onChange={(which) => setParams({ which })} />
  );
}
