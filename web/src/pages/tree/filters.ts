// The filters of the tree, as kept in the address.

import type { Params } from "../../router";

export interface Filters {
  function: string;
  name: string;
  errors: boolean;
  slow: string; // seconds, "" for any
  stage: string;
}

export const SLOW: { value: string; text: string }[] = [
  { value: "", text: "Any time" },
  { value: "0.001", text: "≥ 1 ms" },
  { value: "0.01", text: "≥ 10 ms" },
  { value: "0.1", text: "≥ 100 ms" },
  { value: "1", text: "≥ 1 s" },
  { value: "10", text: "≥ 10 s" },
];

export function filtersOf(params: URLSearchParams): Filters {
  return {
    function: params.get("function") ?? "",
    name: params.get("name") ?? "",
    errors: params.get("errors") === "1",
    slow: params.get("slow") ?? "",
    stage: params.get("stage") ?? "",
  };
}

export const NO_FILTERS: Params = { function: null, name: null, errors: null, slow: null, stage: null };

export function asParams(filters: Filters): Params {
  return { ...filters, errors: filters.errors ? 1 : null };
}

export function anyFilter(filters: Filters): boolean {
  return Boolean(filters.function || filters.name || filters.errors || filters.slow || filters.stage);
}
