// The source of a call with the values recorded at each line, and a slider through its changes. A report holds only
// the final values, and has no slider.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { runPath, theReport, useAnswer } from "../../api";
import type { Params } from "../../router";
import type { CallId, LineValue, RunId, Source } from "../../types";
import { Empty, Loading, Notice, Problem } from "../../ui";
import { CodeLines } from "./CodeLines";
import { Player } from "./Player";
import "../../styles/source.css";

/** The number of changes to show: a given number, up to a value of a series, or all. */
export interface Moment {
  at: number | null;
  of: string | null;
  nth: number | null;
}

export const AFTER_ALL: Moment & Params = { at: null, of: null, nth: null };

export function momentOf(params: URLSearchParams): Moment {
  const integerParam = (key: string) => (/^\d+$/.test(params.get(key) ?? "") ? Number(params.get(key)) : null);
  return { at: integerParam("at"), of: params.get("of"), nth: integerParam("nth") };
}

function asked(call: CallId, { at, of, nth }: Moment): Params {
  if (theReport()) return { call };
  return at !== null || of === null ? { call, at } : { call, of, nth };
}

interface SourcePanelProps {
  run: RunId;
  call: CallId;
  at: Moment;
  onAt: (at: number) => void;
}

export function SourcePanel({ run, call, at, onAt }: SourcePanelProps) {
  const { data, error, reload, stale } = useAnswer<Source>(runPath(run, "source"), asked(call, at), { live: true });
  const last = useRef<Source | null>(null);
  if (data) last.current = data;
  const source = data ?? last.current; // a step that fails leaves the one before in sight
  if (!source) return error ? <Problem error={error} retry={reload} /> : <Loading what="Reading the source" />;
  return (
    <div class="source" aria-busy={stale}>
      {error && (
        <Notice kind="bad">
          {error.error} {error.remedy}
        </Notice>
      )}
      {source.total > 0 && !theReport() && <Player total={source.total} at={at.at ?? source.at} onAt={onAt} />}
      <SourceBody run={run} source={source} />
    </div>
  );
}

function SourceBody({ run, source }: { run: RunId; source: Source }) {
  const [open, setOpen] = useState<string | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const values = useMemo(() => byLine(source.values), [source]);
  const now = source.values.find((value) => value.now)?.line ?? null;
  useEffect(() => {
    if (now !== null) keepInSight(box.current, now - source.first);
  }, [now, source.at]);
  if (source.missing) {
    return (
      <>
        <Notice>No source: {source.missing}.</Notice>
        {source.values.length > 0 ? (
          <div class="source-code" ref={box}>
            <CodeLines run={run} source={withoutText(source)} values={values} now={now} open={open} onOpen={setOpen} />
          </div>
        ) : null}
      </>
    );
  }
  if (source.lines.length === 0) return <Empty title="There is no source for this call." />;
  return (
    <div class="source-code" ref={box} tabIndex={0} aria-label={`Source of ${source.file}`}>
      <CodeLines run={run} source={source} values={values} now={now} open={open} onOpen={setOpen} />
    </div>
  );
}

export function byLine(values: LineValue[]): Map<number, LineValue[]> {
  const lines = new Map<number, LineValue[]>();
  for (const value of values) {
    const lineValues = lines.get(value.line);
    if (lineValues) lineValues.push(value);
    else lines.set(value.line, [value]);
  }
  return lines;
}

/** Where the text is gone, the lines that have values are still told. */
export function withoutText(source: Source): Source {
  const lines = source.values.map((value) => value.line);
  const first = Math.min(...lines);
  const last = Math.max(...lines);
  const count = Math.min(last - first + 1, 2000);
  return { ...source, first, lines: Array.from({ length: count }, () => "") };
}

/** Scrolls the code, and nothing around it. */
function keepInSight(box: HTMLElement | null, index: number): void {
  const line = box?.querySelectorAll<HTMLElement>(".code-line")[index];
  if (!box || !line) return;
  const top = line.offsetTop - box.offsetTop;
  const inside = top >= box.scrollTop + 24 && top + line.offsetHeight <= box.scrollTop + box.clientHeight - 24;
  if (!inside) box.scrollTop = Math.max(0, top - box.clientHeight / 2);
}
