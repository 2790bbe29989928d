import { useMemo, useRef, useState } from "preact/hooks";
import { useSettled } from "../../answers";
import { runPath, useAnswer, useOverview } from "../../api";
import { count, counted } from "../../format";
import type { NameRow, Names, RunId } from "../../types";
import { Button, classes, Search, useKeys, VirtualList } from "../../ui";

interface NameListProps {
  run: RunId;
  names: NameRow[]; // the names in the overview, of the kinds shown
  kinds: NameRow["kind"][];
  chosen: string[];
  onToggle?: (name: string) => void; // if given, several names may be selected
  onOnly: (name: string) => void;
}

/** The list of names beside a plot, to search and to select one or several. It collapses on narrow screens. */
export function NameList({ run, names, kinds, chosen, onToggle, onOnly }: NameListProps) {
  const [search, setSearch] = useState("");
  const [active, setActive] = useState(() => names.findIndex((each) => chosen.includes(each.name)));
  const [open, setOpen] = useState(false);
  const more = useMore(run, search);
  const matches = useMemo(
    () => more.names?.filter((each) => kinds.includes(each.kind)) ?? matching(names, search),
    [names, search, more.names],
  );
  const box = useRef<HTMLElement>(null);
  const enter = (by: number) => {
    box.current?.querySelector<HTMLElement>(".vlist")?.focus();
    setActive((old) => Math.max(0, Math.min(matches.length - 1, old + by)));
  };
  useKeys({ j: () => enter(1), k: () => enter(-1) });
  const choose = (i: number) => {
    const name = matches[i]?.name;
    if (name === undefined) return;
    if (onToggle) onToggle(name);
    else onOnly(name);
  };
  return (
    <aside ref={box} class={classes("side", open && "open")} aria-label="Names">
      <Button class="side-fold" icon={open ? "up" : "down"} onClick={() => setOpen(!open)}>
        <span class="clip">{chosen.length ? chosen.join(", ") : "Choose names"}</span>
      </Button>
      <div class="side-body">
        <div class="side-head">
          <Search
            value={search}
            onChange={(text) => {
              setSearch(text);
              setActive(-1);
            }}
            label="Search names"
            onKeyDown={(event) => {
              if (event.key === "ArrowDown") enter(1);
              else if (event.key === "Enter") choose(0);
              else return;
              event.preventDefault();
            }}
          />
        </div>
        <VirtualList
          count={matches.length}
          row={28}
          label="Names"
          many={!!onToggle}
          active={active}
          onActive={setActive}
          onOpen={choose}
          onKey={(event, i) => event.key === " " && (choose(i), true)}
          rowProps={(i) => ({ "aria-selected": chosen.includes(matches[i].name), title: hint(matches[i]) })}
          render={(i) => <Row row={matches[i]} on={chosen.includes(matches[i].name)} many={!!onToggle} onOnly={onOnly} />}
        />
        <div class="side-foot faint">{footText(matches.length, names.length, search, more.hidden)}</div>
      </div>
    </aside>
  );
}

function Row({ row, on, many, onOnly }: { row: NameRow; on: boolean; many: boolean; onOnly: (name: string) => void }) {
  return (
    <div class={classes("name-row", on && "on")}>
      {many && <span class={classes("tick", on && "on")} aria-hidden="true" />}
      <span class={classes("clip mono", row.kind === "value" && "muted")}>{row.name}</span>
      {many && (
        <button
          type="button"
          class="only"
          tabIndex={-1}
          onClick={(event) => {
            event.stopPropagation();
            onOnly(row.name);
          }}
        >
          only
        </button>
      )}
      <span class="faint num">{short(row.count)}</span>
    </div>
  );
}

/** If the run has more names than the overview holds, the server searches; `hidden` is the number not listed. */
function useMore(run: RunId, search: string): { names: NameRow[] | null; hidden: number } {
  const overview = useOverview();
  const hiddenCount = overview ? overview.counts.names - overview.names.length : 0;
  const settled = useSettled(search.trim(), 150);
  const asking = hiddenCount > 0 && settled !== "";
  const { data } = useAnswer<Names>(asking ? runPath(run, "names") : null, { search: settled, limit: 1000 });
  if (hiddenCount <= 0) return { names: null, hidden: 0 };
  if (!asking || !data) return { names: null, hidden: hiddenCount };
  return { names: data.names, hidden: data.found - data.names.length };
}

function footText(found: number, all: number, search: string, hidden: number): string {
  if (hidden > 0)
    return `${counted(found, "name")}; ${count(hidden)} more of any kind: ${search ? "search more closely" : "search for them"}`;
  return search ? `${count(found)} of ${counted(Math.max(all, found), "name")}` : counted(all, "name");
}

function hint(row: NameRow): string {
  return [row.name, counted(row.count, "value"), row.functions.length && `in ${row.functions.join(", ")}`]
    .filter(Boolean)
    .join(" · ");
}

function short(value: number): string {
  if (value < 10_000) return count(value);
  return value < 999_500 ? `${Math.round(value / 1000)}k` : `${(value / 1e6).toPrecision(3)}M`;
}

/** Names that contain all words, followed by names whose functions contain them. */
export function matching(names: NameRow[], search: string): NameRow[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return names;
  const fits = (text: string) => words.every((word) => text.toLowerCase().includes(word));
  const named = names.filter((row) => fits(row.name));
  const inFunctions = names.filter((row) => !fits(row.name) && fits([row.name, ...row.functions].join("\n")));
  return [...named, ...inFunctions];
}
