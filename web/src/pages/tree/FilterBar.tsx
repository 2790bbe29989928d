import { useState } from "preact/hooks";
import { runPath, theReport, useAnswer, useOverview } from "../../api";
import { counted } from "../../format";
import { setParams } from "../../router";
import type { Pipeline, RunId } from "../../types";
import { Button, Search, Segmented, Select } from "../../ui";
import { anyFilter, NO_FILTERS, SLOW, type Filters } from "./filters";

type By = "function" | "name";

/** Search and further filters of calls, all kept in the address. */
export function FilterBar({ run, filters, found }: { run: RunId; filters: Filters; found: number | null }) {
  const [by, setBy] = useState<By>(filters.name && !filters.function ? "name" : "function");
  const other: By = by === "function" ? "name" : "function";
  const switchTo = (next: By) => {
    setBy(next);
    setParams({ [by]: null, [next]: filters[by] || filters[next] });
  };
  return (
    <div class="bar tree-filters">
      <Segmented
        label="Search in"
        value={by}
        options={[
          { value: "function", text: "Functions" },
          { value: "name", text: "Names" },
        ]}
        onChange={switchTo}
      />
      <Search
        value={filters[by]}
        label={by === "function" ? "Search functions" : "Search names of values"}
        delay={250}
        onChange={(text) => setParams({ [by]: text, [other]: null })}
      />
      <Select
        label="Duration"
        value={filters.slow}
        options={slowOptions(filters.slow)}
        onChange={(slow) => setParams({ slow })}
      />
      <StageSelect run={run} stage={filters.stage} />
      <Button pressed={filters.errors} onClick={() => setParams({ errors: filters.errors ? null : 1 })}>
        Errors
      </Button>
      {anyFilter(filters) && (
        <span class="tree-found">
          <span class="muted" role="status">
            {found === null ? "" : `${counted(found, "call")} found${theReport() ? " in this report" : ""}`}
          </span>
          <Button small kind="quiet" icon="close" onClick={() => setParams(NO_FILTERS)}>
            Clear
          </Button>
        </span>
      )}
    </div>
  );
}

/** A value typed into the address by hand is kept. */
function slowOptions(slow: string) {
  return SLOW.some((each) => each.value === slow) ? SLOW : [...SLOW, { value: slow, text: `≥ ${slow} s` }];
}

/** Shown only if the run has stages. */
function StageSelect({ run, stage }: { run: RunId; stage: string }) {
  const hasStages = useOverview()?.pages.pipeline ?? false;
  const { data } = useAnswer<Pipeline>(hasStages ? runPath(run, "pipeline") : null);
  const names = data?.stages.map((each) => each.name) ?? [];
  if (names.length === 0 && !stage) return null;
  const all = stage && !names.includes(stage) ? [...names, stage] : names;
  const options = [{ value: "", text: "Any stage" }, ...all.map((name) => ({ value: name, text: name }))];
  return <Select label="Stage" value={stage} options={options} onChange={(next) => setParams({ stage: next })} />;
}
