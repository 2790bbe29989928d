import { useContext, useEffect, useMemo, useReducer } from "preact/hooks";
import { get, LiveContext, runPath } from "../../api";
import type { Branch, RunId } from "../../types";
import { anyFilter, asParams, type Filters } from "./filters";
import { type Leads, TreeModel } from "./model";
import type { BranchQuery } from "./search";

/** The tree of a run under a filter; another run or filter is another tree. Grows with the run. */
export function useTree(run: RunId, filters: Filters): TreeModel {
  const [, draw] = useReducer((turn: number) => turn + 1, 0);
  const { version } = useContext(LiveContext);
  const wanted = JSON.stringify(filters);
  const model = useMemo(() => new TreeModel(asker(run, filters), () => draw(null), leadsOf(filters)), [run, wanted]);
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
    // A report holds the answers to just these questions, page by page.
    get<Branch>(runPath(run, "tree"), { ...asParams(filters), parent, offset, limit, fold: fold ? null : 0 });
}
