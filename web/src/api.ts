// Requests answers from the server this page came from, or from the report that contains the page; from nowhere else.

import { createContext } from "preact";
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";
import { cutCurve, cutTensors } from "./plot/reduce";
import { isSearch, ReportTree } from "./reporttree";
import type { Branch, Curve, Overview, Refusal, RunId, Status, TensorCurve, Version } from "./types";
import { type Params, query } from "./router";

export const POLL = 1500; // ms between two polls of a running run

export interface Report {
  made: string;
  title: string;
  run: RunId;
  answers: Record<string, unknown>;
}

/** Thrown if there is no answer. */
export class Refused extends Error {
  constructor(
    readonly refusal: Refusal,
    readonly status: number,
  ) {
    super(refusal.error);
  }
}

// ---- the report -----------------------------------------------------------------------------------------------------

let report: Report | null | undefined;
let reportAnswers = new Map<string, unknown>();

/** The report that contains this page; null if a server does. */
export function theReport(): Report | null {
  if (report === undefined) openReport(document.getElementById("clew-report")?.textContent ?? "");
  return report ?? null;
}

export function openReport(text: string): void {
  report = text.trim() ? (JSON.parse(text) as Report) : null;
  reportAnswers = new Map();
  reportTree = null;
  for (const [key, answer] of Object.entries(report?.answers ?? {})) {
    reportAnswers.set(canonical(key), answer);
    reportAnswers.set(canonical(key, RESOLUTION_PARAMS), answer);
  }
}

// Parameters for the section and resolution of an answer. A report holds one resolution of each answer.
const RESOLUTION_PARAMS = ["from", "to", "px", "columns", "bins"];

/** A canonical key for an address, independent of escaping and parameter order, and without some parameters. */
export function canonical(address: string, without: string[] = []): string {
  const [path, search = ""] = address.split("?", 2);
  const pairs = [...new URLSearchParams(search)]
    .filter(([key]) => !without.includes(key))
    .map(([key, value]) => [key, key === "x" ? String(Number(value)) : value]) // 3 and 3.0 are the same place
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  let plain = path;
  try {
    plain = decodeURIComponent(path);
  } catch {
    // not escaped, but contains a %
  }
  return JSON.stringify([plain, pairs]);
}

/** Whether an answer is available: always from a server; from a report, if it contains the answer. */
export function has(path: string, params: Params = {}): boolean {
  return !theReport() || reportAnswers.has(canonical(address(path, params), RESOLUTION_PARAMS));
}

function fromReport<T>(path: string, params: Params): T {
  const exact = reportAnswers.get(canonical(address(path, params)));
  if (exact !== undefined) return exact as T;
  const whole = reportAnswers.get(canonical(address(path, params), RESOLUTION_PARAMS));
  if (whole === undefined && isSearch(path, params)) return searchReport(params) as T;
  const { from, to, px } = params;
  if (whole !== undefined) return cutToWindow(path, whole, asNumber(from), asNumber(to), asNumber(px)) as T;
  throw new Refused(
    {
      error: "This is not in this report.",
      remedy: "Open the run itself with `clew view`, or make a report that holds more of it.",
      slug: "not-in-report",
    },
    404,
  );
}

let reportTree: ReportTree | null = null;

function searchReport(params: Params): Branch {
  reportTree ??= new ReportTree(theReport()!.answers);
  return reportTree.search(params);
}

function cutToWindow(path: string, whole: unknown, from: number | null, to: number | null, px: number | null): unknown {
  if (path.endsWith("/series")) return cutCurve(whole as Curve, from, to, px);
  if (path.endsWith("/tensors")) return cutTensors(whole as TensorCurve, from, to);
  return whole;
}

function asNumber(value: Params[string]): number | null {
  return value === null || value === undefined || value === "" ? null : Number(value);
}

// ---- the server -----------------------------------------------------------------------------------------------------

/** In a notebook's frame the page holds the token; elsewhere the browser has it as a cookie. */
function tokenHeader(): Record<string, string> {
  const token = document.querySelector<HTMLMetaElement>('meta[name="clew-token"]')?.content;
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export function address(path: string, params: Params = {}): string {
  const text = query(params);
  return text ? `${path}?${text}` : path;
}

/** The path of a run's answers: `runPath(id, "series")`. */
export function runPath(run: RunId, what = ""): string {
  const base = `/api/run/${encodeURIComponent(run)}`;
  return what ? `${base}/${what}` : base;
}

export async function get<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  if (theReport()) return fromReport<T>(path, params);
  return ask<T>(address(path, params), { signal });
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  if (theReport()) throw new Refused({ error: "A report cannot be changed.", remedy: "", slug: "report" }, 405);
  const headers = { "Content-Type": "application/json" };
  const answer = await ask<T>(path, { method: "POST", headers, body: JSON.stringify(body) });
  recentAnswers.clear(); // outdated answers must not be shown after a change
  return answer;
}

async function ask<T>(url: string, init: RequestInit): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(url, { ...init, headers: { ...init.headers, ...tokenHeader() } });
  } catch (problem) {
    if ((problem as Error).name === "AbortError") throw problem;
    throw new Refused(
      {
        error: "The server does not answer.",
        remedy: "It has ended, or the connection is gone. Start `clew view` again and open the address it prints.",
        slug: "no-server",
      },
      0,
    );
  }
  if (!answer.ok) throw new Refused(await refusal(answer), answer.status);
  return (await answer.json()) as T;
}

async function refusal(answer: Response): Promise<Refusal> {
  try {
    const body = (await answer.json()) as Partial<Refusal>;
    if (typeof body.error === "string") return { error: body.error, remedy: body.remedy ?? "", slug: body.slug ?? "" };
  } catch {
    // not JSON: reported below
  }
  return { error: `The server answered ${answer.status}.`, remedy: "Look at what it prints.", slug: "http" };
}

export function asRefusal(problem: unknown): Refusal {
  if (problem instanceof Refused) return problem.refusal;
  return { error: `The answer could not be read: ${String(problem)}`, remedy: "Load the page again.", slug: "answer" };
}

// ---- hooks ----------------------------------------------------------------------------------------------------------

/** What the shell knows about the run shown, for all components inside it. */
export interface Live {
  version: number;
  status: Status | null;
  overview: Overview | null;
}

export const LiveContext = createContext<Live>({ version: 0, status: null, overview: null });

export function useOverview(): Overview | null {
  return useContext(LiveContext).overview;
}

export interface Answer<T> {
  data: T | null; // the last answer to this path, even while a new one is loading
  error: Refusal | null; // of the last request
  loading: boolean;
  stale: boolean; // `data` belongs to an earlier request than the current one
  reload: () => void;
}

interface Held<T> {
  path: string | null;
  key: string;
  data: T | null;
  error: Refusal | null;
}

const recentAnswers = new Map<string, unknown>(); // the last answers, shown at once when the user returns to a page
const MAX_RECENT_ANSWERS = 60;

function remember(key: string, answer: unknown): void {
  recentAnswers.delete(key);
  recentAnswers.set(key, answer);
  if (recentAnswers.size > MAX_RECENT_ANSWERS) recentAnswers.delete(recentAnswers.keys().next().value!);
}

/**
 * The answer to a request. A new request to the same path keeps the old answer until the new one arrives, so that
 * nothing flickers; another path starts empty. A null `path` requests nothing. `live` repeats the request when the run
 * has grown.
 */
export function useAnswer<T>(path: string | null, params: Params = {}, options: { live?: boolean } = {}): Answer<T> {
  const { version } = useContext(LiveContext);
  const key = path === null ? "" : address(path, params);
  const [asked, setAsked] = useState(0);
  const [held, setHeld] = useState<Held<T>>(() => begin<T>(path, key));
  useAsking(path === null ? null : key, `${options.live ? version : 0} ${asked}`, async (signal) => {
    try {
      const data = await get<T>(path!, params, signal);
      if (signal.aborted) return;
      remember(key, data);
      setHeld({ path, key, data, error: null });
    } catch (problem) {
      if (signal.aborted) return;
      const error = asRefusal(problem);
      setHeld((old) => ({ path, key, data: old.path === path && old.key === key ? old.data : null, error }));
    }
  });

  const now = held.path === path ? held : begin<T>(path, key);
  const fresh = now.key === key;
  const data = fresh ? now.data : ((recentAnswers.get(key) as T | undefined) ?? now.data);
  const reload = useCallback(() => setAsked((n) => n + 1), []);
  return {
    data,
    error: fresh ? now.error : null,
    loading: path !== null && (!fresh || (now.data === null && now.error === null)),
    stale: !fresh && !recentAnswers.has(key),
    reload,
  };
}

function begin<T>(path: string | null, key: string): Held<T> {
  const data = (recentAnswers.get(key) as T | undefined) ?? null;
  return { path, key, data, error: null };
}

interface Turn {
  key: string;
  again: boolean;
  stop: AbortController;
}

/**
 * Sends a request when its `key` or the version of the run (`seen`) changes. A new key aborts the pending request; a
 * new version does not, because an answer that takes longer than the run takes to grow would never arrive.
 */
export function useAsking(key: string | null, seen: string, ask: (signal: AbortSignal) => Promise<void>): void {
  const busy = useRef<Turn | null>(null);
  const [missed, setMissed] = useState(0);
  useEffect(() => {
    if (key !== null && busy.current?.key === key) {
      busy.current.again = true;
      return;
    }
    busy.current?.stop.abort();
    busy.current = null;
    if (key === null) return;
    const turn = { key, again: false, stop: new AbortController() };
    busy.current = turn;
    void ask(turn.stop.signal).finally(() => {
      if (busy.current !== turn) return;
      busy.current = null;
      if (turn.again) setMissed((n) => n + 1);
    });
  }, [key, seen, missed]);
  useEffect(
    () => () => {
      busy.current?.stop.abort();
      busy.current = null;
    },
    [],
  );
}

/** Calls `look` regularly while `on` and the page is visible, and never before the previous call has ended. */
export function usePolling(look: () => Promise<unknown>, on: boolean, every = POLL): void {
  const latest = useRef(look);
  latest.current = look;
  useEffect(() => {
    if (!on || theReport()) return;
    let timer = 0;
    let ended = false;
    const next = () => {
      if (!ended) timer = window.setTimeout(turn, every);
    };
    const turn = () => {
      if (document.visibilityState === "hidden") next();
      else void latest.current().then(next, next);
    };
    const shown = () => {
      if (document.visibilityState === "hidden" || ended) return;
      window.clearTimeout(timer);
      turn();
    };
    next();
    document.addEventListener("visibilitychange", shown);
    return () => {
      ended = true;
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [on, every]);
}

/** The overview of a run, and its version, which is polled while the run goes on. */
export function useLive(run: RunId): Live & { error: Refusal | null; reload: () => void } {
  const [polledVersion, setPolledVersion] = useState<(Version & { run: RunId }) | null>(null);
  const [pollError, setPollError] = useState<Refusal | null>(null);
  const overview = useAnswer<Overview>(runPath(run));
  const data = overview.data;
  const now = polledVersion?.run === run ? polledVersion : null;
  const status = now?.status ?? data?.run.status ?? null;
  const version = now?.version ?? data?.version ?? 0;
  const look = async () => {
    try {
      setPolledVersion({ run, ...(await get<Version>(runPath(run, "version"))) });
      setPollError(null);
    } catch (problem) {
      setPollError(asRefusal(problem));
    }
  };
  usePolling(look, status === "running");
  useEffect(() => {
    if (data && (version !== data.version || status !== data.run.status)) overview.reload();
  }, [version, status]);
  return { version, status, overview: data, error: overview.error ?? pollError, reload: overview.reload };
}
