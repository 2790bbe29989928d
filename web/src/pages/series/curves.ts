import { useMemo } from "preact/hooks";
import { useAnswers } from "../../answers";
import { runPath, theReport, useAnswer } from "../../api";
import type { Line, Range } from "../../plot/lines";
import { smooth } from "../../plot/smooth";
import { useColours } from "../../theme";
import type { Axis, Curve, Refusal, RunId, Runs } from "../../types";

/** A requested curve, and its answer so far. */
export interface Shown {
  id: string;
  run: RunId;
  runName: string | null; // null if only one run is shown
  name: string;
  colour: string;
  curve: Curve | null;
  line: Line | null;
  error: Refusal | null;
}

interface Asked {
  runs: RunId[]; // the page's own run comes first
  names: string[];
  axis: Axis;
  range: Range | null;
  px: number;
  weight: number;
}

export function useCurves({ runs, names, axis, range, px, weight }: Asked): Shown[] {
  const colour = useColours();
  const nameOf = useRunNames(runs);
  const requested = runs.flatMap((run) => names.map((name) => ({ id: JSON.stringify([run, name, axis]), run, name })));
  const questions = requested.map(({ id, run, name }) => {
    const params = { name, axis, from: range?.[0], to: range?.[1], px };
    return { id, path: runPath(run, "series"), params };
  });
  const answers = useAnswers<Curve>(questions, { live: true });
  const ids = requested.map((each) => each.id).join();
  return useMemo(
    () =>
      requested.map((each, i) => {
        const { data: curve = null, error = null } = answers.get(each.id) ?? {};
        const runName = nameOf(each.run);
        const label = runName === null ? each.name : `${each.name} · ${runName}`;
        const shade = colour(`--c${i % 10}`);
        const line = curve && lineOf(each.id, label, shade, curve, weight);
        return { ...each, runName, colour: shade, curve, line, error };
      }),
    [answers, ids, weight, runs.map(nameOf).join(), colour("--c0")],
  );
}

function useRunNames(runs: RunId[]): (run: RunId) => string | null {
  const several = runs.length > 1;
  const { data } = useAnswer<Runs>(several && !theReport() ? "/api/runs" : null);
  return (run) => {
    if (!several) return null;
    return run === runs[0] ? "this run" : (data?.runs.find((each) => each.id === run)?.name ?? run);
  };
}

/** A curve as drawn: optionally smoothed, with the original values faint behind it. */
export function lineOf(id: string, label: string, colour: string, curve: Curve, weight: number): Line {
  const smoothed = weight > 0;
  const band = curve.low && curve.high ? [{ low: curve.low, high: curve.high, strength: smoothed ? 0.1 : 0.2 }] : [];
  const line = { id, label, colour, x: curve.x, bands: band, marks: curve.marks };
  return smoothed ? { ...line, y: smooth(curve.y, weight), faint: curve.y } : { ...line, y: curve.y };
}
