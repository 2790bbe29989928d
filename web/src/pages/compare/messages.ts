// Turns a comparison into words and figures for display. Nothing here draws.

import type { Agreement, Diff, Difference, DiffSettings, Measure, Num } from "../../difftypes";
import { count, counted, number } from "../../format";

export function num(value: Num | null | undefined, digits = 4): string {
  if (typeof value === "string") return value.replace("Infinity", "Inf");
  if (typeof value === "number" && Math.abs(value) >= 10 ** digits && Math.abs(value) < 1e12) return count(value);
  return number(value, digits);
}

export function asNumber(value: Num): number {
  return Number(value); // also reads "NaN" and "Infinity"
}

export interface Headline {
  tone: "good" | "bad" | "warn";
  title: string;
  text: string;
}

export function headlineOf({ summary, first, runs, settings }: Diff): Headline {
  const values = counted(summary.compared, "value");
  if (summary.compared === 0) {
    return { tone: "warn", title: "Nothing was compared", text: "The runs have no call and name in common." };
  }
  if (first) {
    const at = first.step === null ? "" : ` at step ${stepText(first.step)}`;
    const differ = summary.differ === 1 ? "differs" : "differ";
    const text = `${counted(summary.differ, "value")} of ${count(summary.compared)} ${differ}.`;
    return { tone: "bad", title: `First difference: ${first.name} in ${first.function || "no call"}${at}`, text };
  }
  if (!summary.equal) {
    return {
      tone: "warn",
      title: "All that both runs have agrees",
      text: `${values} compared; but ${onlyText(summary)}.`,
    };
  }
  const exact = summary.identical === summary.compared;
  const within = settings.noise !== null ? "within the noise" : "within the tolerance";
  const text = exact
    ? `${values} compared, bit for bit the same.`
    : `${values} compared: ${count(summary.identical)} bit for bit the same, ${count(summary.within)} ${within}.`;
  return { tone: "good", title: `${runs.a.name} and ${runs.b.name} are equal`, text };
}

function onlyText(summary: Diff["summary"]): string {
  const side = (name: string, { calls, values }: { calls: number; values: number }) =>
    calls || values ? [`${counted(calls, "call")} and ${counted(values, "value")} are only in ${name}`] : [];
  return [...side("A", summary.only_in_a), ...side("B", summary.only_in_b)].join("; ");
}

/** How strict the comparison was, in one line. */
export function strictness(settings: DiffSettings): string {
  const tolerances = (["rtol", "atol", "ulp"] as const)
    .filter((key) => settings[key] !== null)
    .map((key) => `${key} ${num(settings[key])}`);
  const parts: string[] = [];
  if (settings.noise !== null) parts.push(`the noise of each place, up to ${num(settings.noise)} times`);
  if (tolerances.length > 0) parts.push(tolerances.join(", "));
  if (parts.length === 0) parts.push("defaults by dtype");
  if (settings.only.length > 0) parts.push(`only ${settings.only.join(", ")}`);
  if (settings.ignore.length > 0) parts.push(`without ${settings.ignore.join(", ")}`);
  return parts.join(" · ");
}

/** The default tolerances if they apply, so that users need not guess them. */
export function defaultsText({ defaults }: DiffSettings): string | null {
  if (!defaults) return null;
  const texts = Object.entries(defaults).map(([dtype, limits]) => {
    const figures = Object.entries(limits).filter(([, limit]) => limit > 0);
    return `${dtype} ${figures.map(([name, limit]) => `${name} ${num(limit)}`).join(", ") || "exact"}`;
  });
  return texts.length > 0 ? `Defaults: ${texts.join("; ")}; all else exact.` : null;
}

export function stepText(step: unknown): string {
  if (typeof step === "string" || typeof step === "number") return String(step);
  return JSON.stringify(step);
}

/** The facts about two values, most informative first. */
export function measureRows(measure: Measure): [string, string][] {
  const rows: [string, string | null][] = [
    ["note", measure.note ?? null],
    ["inside it", measure.path ?? null],
    ["shapes", pair(measure.shapes)],
    ["dtypes", pair(measure.dtypes)],
    ["largest difference", measure.max_abs === undefined ? null : num(measure.max_abs)],
    ["relative", measure.max_rel === undefined ? null : num(measure.max_rel)],
    ["ULP", measure.max_ulp === undefined ? null : num(measure.max_ulp)],
    ["cosine", measure.cosine === undefined ? null : num(measure.cosine, 12)],
    ["elements", elements(measure)],
    ["first at", at(measure.first_index, measure.first_values)],
    ["worst at", at(measure.worst_index)],
    ["NaN", nonzero(measure.nan)],
    ["Inf", nonzero(measure.inf)],
    ["not finite at", at(measure.nonfinite_index)],
  ];
  return rows.filter((row): row is [string, string] => row[1] !== null && row[1] !== "");
}

function pair(values: unknown[] | undefined): string | null {
  return values?.length
    ? values.map((value) => (Array.isArray(value) ? `(${value.join(", ")})` : String(value))).join(" against ")
    : null;
}

function elements({ count: beyond, total }: Measure): string | null {
  if (beyond === undefined || total === undefined || total <= 1) return null;
  return `${count(beyond)} of ${count(total)} beyond the tolerance`;
}

function at(index: number[] | undefined, values?: unknown[]): string | null {
  if (!index?.length) return null;
  const valuesText = values?.length === 2 ? `: ${values.map(valueText).join(" against ")}` : "";
  return `[${index.join(", ")}]${valuesText}`;
}

function valueText(value: unknown): string {
  return typeof value === "number" ? number(value, 10) : String(value);
}

function nonzero(counts: number[] | undefined): string | null {
  return counts?.some((each) => each > 0) ? counts.map((each) => count(each)).join(" against ") : null;
}

export const ROLES: Record<Difference["role"], string> = {
  producer: "made here",
  propagator: "passed on",
  unknown: "origin unknown",
};

/** 0 if the node agrees; else 1 … 4 by the worst difference, 4 also if that is not finite. */
export function heatOf(node: Agreement): number {
  if (node.differ === 0) return 0;
  const worst = asNumber(node.worst);
  if (!Number.isFinite(worst)) return 4;
  const size = Math.log10(Math.max(worst, 1e-12));
  return size < -6 ? 1 : size < -3 ? 2 : size < 0 ? 3 : 4;
}

export interface TreeLine {
  node: Agreement;
  key: string;
  level: number;
  open: boolean;
}

/** The open lines of the agreement tree, without its root, which is shown elsewhere. */
export function linesOf(root: Agreement, open: ReadonlySet<string>): TreeLine[] {
  const lines: TreeLine[] = [];
  const add = (node: Agreement, level: number, above: string): void => {
    const key = `${above}/${node.label}`;
    const isOpen = node.children.length > 0 && open.has(key);
    lines.push({ node, key, level, open: isOpen });
    if (isOpen) for (const child of node.children) add(child, level + 1, key);
  };
  for (const child of root.children) add(child, 0, "");
  return lines;
}

const MAX_INITIAL_LINES = 40;

/** The nodes that are initially open: those that differ, as long as the tree stays readable. */
export function openAtFirst(root: Agreement): Set<string> {
  const open = new Set<string>();
  let shown = root.children.length;
  const queue = root.children.map((node) => ({ node, key: `/${node.label}` }));
  for (let next = queue.shift(); next; next = queue.shift()) {
    const { node, key } = next;
    if (node.differ === 0 || node.children.length === 0 || shown + node.children.length > MAX_INITIAL_LINES) continue;
    open.add(key);
    shown += node.children.length;
    queue.push(...node.children.map((child) => ({ node: child, key: `${key}/${child.label}` })));
  }
  return open;
}
