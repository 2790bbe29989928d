// The page's address: everything after `#`. It holds what is shown, so that it can be shared and returned to.

import { useEffect, useState } from "preact/hooks";
import type { CallId, RunId } from "./types";

export const TABS = ["series", "tensor", "tree", "source", "pipeline", "graph", "ledger"] as const;
export type Tab = (typeof TABS)[number];

export type Route =
  | { page: "runs"; params: URLSearchParams }
  | { page: "run"; run: RunId; tab: Tab | null; params: URLSearchParams } // null: the first tab that the run has
  | { page: "compare"; params: URLSearchParams }
  | { page: "lost"; hash: string; params: URLSearchParams };

export type Params = Record<string, string | number | boolean | null | undefined>;

export function parse(hash: string): Route {
  const [path, query = ""] = split(hash.replace(/^#/, ""));
  const params = new URLSearchParams(query);
  const parts = path.split("/").filter(Boolean).map(decoded);
  if (parts.length === 0) return { page: "runs", params };
  if (parts[0] === "compare" && parts.length === 1) return { page: "compare", params };
  if (parts[0] === "run" && parts.length === 2) return { page: "run", run: parts[1], tab: null, params };
  if (parts[0] === "run" && parts.length === 3 && isTab(parts[2])) {
    return { page: "run", run: parts[1], tab: parts[2], params };
  }
  return { page: "lost", hash, params };
}

function split(text: string): [string, string?] {
  const at = text.indexOf("?");
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray % in a hand-typed address
  }
}

function isTab(text: string): text is Tab {
  return (TABS as readonly string[]).includes(text);
}

/** "a=1&b=2" from the parameters; null, undefined, false and "" are left out. */
export function query(params: Params): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== false && value !== "") search.set(key, String(value));
  }
  return search.toString();
}

function withQuery(path: string, params: Params): string {
  const text = query(params);
  return text ? `${path}?${text}` : path;
}

export const link = {
  runs: () => "#/",
  run: (run: RunId, tab: Tab, params: Params = {}) => withQuery(`#/run/${encodeURIComponent(run)}/${tab}`, params),
  call: (run: RunId, call: CallId, params: Params = {}) => link.run(run, "tree", { call, ...params }),
  compare: (a: RunId, b: RunId) => withQuery("#/compare", { a, b }),
};

/** Several names in one parameter. Commas in names are escaped, so that they do not split them. */
export function joinNames(names: string[]): string {
  return names.map((name) => name.replace(/[%,]/g, encodeURIComponent)).join(",");
}

export function splitNames(text: string): string[] {
  return text.split(",").filter(Boolean).map(decoded);
}

export function go(href: string): void {
  location.hash = href.replace(/^#/, "");
}

/** Change some parameters of the address; null removes one. Adds no entry to the history. */
export function setParams(patch: Params): void {
  const [path, old = ""] = split(location.hash.replace(/^#/, "") || "/");
  const search = new URLSearchParams(old);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || value === undefined || value === false || value === "") search.delete(key);
    else search.set(key, String(value));
  }
  const text = search.toString();
  const hash = text ? `#${path}?${text}` : `#${path}`;
  if (hash === location.hash) return;
  history.replaceState(history.state, "", hash);
  window.dispatchEvent(new HashChangeEvent("hashchange")); // replaceState sends no event
}

export function useRoute(): Route {
  const [hash, setHash] = useState(() => location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return parse(hash);
}
