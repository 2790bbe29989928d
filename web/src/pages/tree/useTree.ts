import { useContext, useEffect, useMemo, useReducer } from "preact/hooks";
import { get, LiveContext, runPath } from "../../api";
import type { Branch, RunId } from "../../types";
import { anyFilter, asParams, type Filters } from "./filters";
import { type Leads, TreeModel } from "./model";
import type { BranchQuery } from "./search";

/** The tree of a run under a filter, updated while the run grows; another run or filter makes a new tree. */
export function useTree(run: RunId, filters: Filters): TreeModel {
  const [, draw] = useReducer((turn: number) => turn + 1, 0);
  const { version } = useContext(LiveContext);
  const filterKey = JSON.stringify(filters);
  const model = useMemo(() => new TreeModel(asker(run, filters), () => draw(null), leadsOf(filters)), [run, filterKey]);
  useEffect(() => {
    void model.start();
    return () => model.leave();
  }, [model]);
  useEffect(() => {
    if (version > 0) void model.refresh();
  }, [version]);
  return model;
}

function leadsOf(filters: Filters): Leads {
  return !anyFilter(filters) ? "nowhere" : filters.name ? "to values" : "to calls";
}

function asker(run: RunId, filters: Filters) {
  return ({ parent, offset, limit, fold }: BranchQuery) =>
    // A report holds exactly these answers, page by page.
    get<Branch>(runPath(run, "tree"), { ...asParams(filters), parent, offset, limit, fold: fold ? null : 0 });
}
