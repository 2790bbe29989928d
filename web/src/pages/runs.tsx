// All runs of a folder: search, sort, open and manage them, or select two to compare.

import { useMemo, useState } from "preact/hooks";
import { useAnswer, usePolling } from "../api";
import { ago, bytes, counted, duration, when } from "../format";
import { go, link, setParams } from "../router";
import "../styles/runs.css";
import type { RunId, RunRow, Runs as RunsAnswer } from "../types";
import { Button, classes, Empty, Icon, Loading, Menu, Notice, Problem, Search, StatusPill, useKeys } from "../ui";
import { DeleteDialog, RenameDialog, TagsDialog } from "./runs/dialogs";
import { fitting, isSort, type Order, orderOf, type Sort, sorted } from "./runs/order";

const COLUMNS: { sort: Sort; text: string; number?: boolean }[] = [
  { sort: "name", text: "Name" },
  { sort: "status", text: "Status" },
  { sort: "started", text: "Started" },
  { sort: "duration", text: "Took", number: true },
  { sort: "size", text: "Size", number: true },
];

const FIRST = 300; // rows drawn initially; the rest on demand
const LOOK = 3000; // ms between two polls of the folder

type Doing = { what: "rename" | "tags" | "delete"; run: RunRow };

export function Runs({ params }: { params: URLSearchParams }) {
  const { data, error, reload } = useAnswer<RunsAnswer>("/api/runs");
  const search = params.get("search") ?? "";
  const order = orderOf(params.get("sort"));
  const [active, setActive] = useState(-1);
  const [marked, setMarked] = useState<RunId[]>([]);
  const [doing, setDoing] = useState<Doing | null>(null);
  const [all, setAll] = useState(false);
  const going = data?.runs.some((run) => run.status === "running") ?? false;
  usePolling(async () => reload(), true, going ? LOOK : 3 * LOOK);

  const matches = useMemo(() => sorted(fitting(data?.runs ?? [], search), order), [data, search, order.by, order.down]);
  const shown = all ? matches : matches.slice(0, FIRST);
  const chosen = marked.filter((id) => data?.runs.some((run) => run.id === id));
  const mark = (id: RunId) =>
    setMarked((old) => (old.includes(id) ? old.filter((each) => each !== id) : [...old.slice(-1), id]));
  const move = (by: number) => setActive((old) => Math.max(0, Math.min(shown.length - 1, old + by)));
  const open = (run: RunRow | undefined) => run && !run.problem && go(`#/run/${encodeURIComponent(run.id)}`);
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: () => open(shown[active]),
    x: () => shown[active] && mark(shown[active].id),
    c: () => chosen.length === 2 && go(link.compare(chosen[0], chosen[1])),
  });
  const sortBy = (by: Sort) => {
    const down = order.by === by ? !order.down : by !== "name" && by !== "status";
    setParams({ sort: `${down ? "-" : ""}${by}` });
  };

  if (error && !data) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading what="Looking for runs" />;
  if (data.runs.length === 0) {
    return (
      <Empty title="There are no runs here yet.">
        <p>
          Looked in <code>{data.base}</code>. Record one: <code>clew run train.py</code>
        </p>
      </Empty>
    );
  }
  return (
    <>
      <div class="bar runs-bar">
        <Search value={search} onChange={(value) => setParams({ search: value })} label="Search name, tag or status" />
        <span class="muted runs-count">
          {search ? `${matches.length} of ${counted(data.runs.length, "run")}` : counted(data.runs.length, "run")}
        </span>
        <Button
          kind={chosen.length === 2 ? "main" : "plain"}
          icon="compare"
          disabled={chosen.length !== 2}
          hint={chosen.length === 2 ? "Compare the two (c)" : "Tick two runs to compare them"}
          onClick={() => go(link.compare(chosen[0], chosen[1]))}
        >
          Compare{chosen.length === 1 ? " 1 of 2" : ""}
        </Button>
      </div>
      {error && (
        <Notice kind="bad">
          {error.error} {error.remedy}
        </Notice>
      )}
      {matches.length === 0 ? (
        <Empty title="No run fits the search.">
          <Button onClick={() => setParams({ search: null })}>Show all</Button>
        </Empty>
      ) : (
        <div class="runs">
          <table class="table">
            <thead>
              <tr>
                <th class="runs-mark">
                  <span class="hidden">Compare</span>
                </th>
                {COLUMNS.map((column) => (
                  <SortHead key={column.sort} {...column} order={order} onSort={sortBy} />
                ))}
                <th>
                  <span class="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((run, i) => (
                <Row
                  key={run.id}
                  run={run}
                  active={i === active}
                  marked={chosen.includes(run.id)}
                  onMark={() => mark(run.id)}
                  onDo={(what) => setDoing({ what, run })}
                />
              ))}
            </tbody>
          </table>
          {matches.length > shown.length && (
            <Button class="runs-more" onClick={() => setAll(true)}>
              Show the other {matches.length - shown.length}
            </Button>
          )}
        </div>
      )}
      <footer class="runs-foot faint clip">{data.base}</footer>
      {doing?.what === "rename" && <RenameDialog run={doing.run} onClose={() => setDoing(null)} onDone={reload} />}
      {doing?.what === "tags" && <TagsDialog run={doing.run} onClose={() => setDoing(null)} onDone={reload} />}
      {doing?.what === "delete" && <DeleteDialog run={doing.run} onClose={() => setDoing(null)} onDone={reload} />}
    </>
  );
}

interface SortHeadProps {
  sort: Sort;
  text: string;
  number?: boolean;
  order: Order;
  onSort: (sort: Sort) => void;
}

function SortHead({ sort, text, number, order, onSort }: SortHeadProps) {
  const on = isSort(order, sort);
  return (
    <th
      class={classes(`col-${sort}`, number && "num")}
      aria-sort={on ? (order.down ? "descending" : "ascending") : undefined}
    >
      <button type="button" class="sort" onClick={() => onSort(sort)}>
        {text}
        <span class={classes("sort-sign", !on && "off")}>
          <Icon name={on && !order.down ? "up" : "down"} size={10} />
        </span>
      </button>
    </th>
  );
}

interface RowProps {
  run: RunRow;
  active: boolean;
  marked: boolean;
  onMark: () => void;
  onDo: (what: Doing["what"]) => void;
}

function Row({ run, active, marked, onMark, onDo }: RowProps) {
  return (
    <tr
      class={classes(active && "active", marked && "marked")}
      ref={(row) => {
        if (active) row?.scrollIntoView?.({ block: "nearest" });
      }}
    >
      <td class="runs-mark">
        <input type="checkbox" checked={marked} onChange={onMark} aria-label={`Compare ${run.name}`} />
      </td>
      <td class="col-name">
        <div class="runs-name">
          {run.problem ? (
            <span class="clip">{run.name}</span>
          ) : (
            <a class="clip" href={`#/run/${encodeURIComponent(run.id)}`} title={run.path}>
              {run.name}
            </a>
          )}
          {Object.entries(run.tags).map(([key, value]) => (
            <span key={key} class="chip" title={`${key}: ${value}`}>
              {value === "" ? key : `${key}: ${value}`}
            </span>
          ))}
        </div>
        <div class="runs-small">
          {duration(run.duration)} · {bytes(run.size)} · {ago(run.started)}
        </div>
        {(run.problem ?? run.error) && (
          <div class="runs-error clip" title={run.problem ?? run.error ?? ""}>
            {run.problem ?? run.error}
          </div>
        )}
      </td>
      <td class="col-status">
        {run.problem ? (
          <span class="pill failed">unreadable</span>
        ) : (
          <StatusPill status={run.status} error={run.error} />
        )}
      </td>
      <td class="col-started muted" title={when(run.started)}>
        {ago(run.started)}
      </td>
      <td class="col-duration num">{duration(run.duration)}</td>
      <td class="col-size num">{bytes(run.size)}</td>
      <td class="runs-menu">
        <Menu
          label={`What to do with ${run.name}`}
          items={[
            { text: "Rename …", icon: "pencil", disabled: !!run.problem, onClick: () => onDo("rename") },
            { text: "Tags …", icon: "tag", disabled: !!run.problem, onClick: () => onDo("tags") },
            {
              text: "Delete …",
              icon: "trash",
              danger: true,
              disabled: run.status === "running",
              onClick: () => onDo("delete"),
            },
          ]}
        />
      </td>
    </tr>
  );
}
