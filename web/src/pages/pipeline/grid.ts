// A pipeline as a grid: the content of each cell, the findings of each stage, and the summary of a cell.

import type { Cell, Finding, Named, Pipeline } from "../../types";

export interface Grid {
  cells: Map<string, Cell[]>; // by position; several if a stage handled an item more than once
  marks: Map<number, Finding[]>; // by stage
  loose: Finding[]; // findings that belong to no stage shown
}

export const placeOf = (item: number, stage: number): string => `${item} ${stage}`;

export function gridOf(pipeline: Pipeline): Grid {
  const cells = new Map<string, Cell[]>();
  for (const cell of pipeline.cells) {
    const place = placeOf(cell.item, cell.stage);
    const here = cells.get(place);
    if (here) here.push(cell);
    else cells.set(place, [cell]);
  }
  const number = new Map(pipeline.stages.map((stage, index) => [stage.name, index]));
  const marks = new Map<number, Finding[]>();
  const loose: Finding[] = [];
  for (const finding of pipeline.findings) {
    const stage = finding.stage === null ? undefined : number.get(finding.stage);
    if (stage === undefined) loose.push(finding);
    else marks.set(stage, [...(marks.get(stage) ?? []), finding]);
  }
  return { cells, marks, loose };
}

export interface Glance {
  picture: Named | null;
  values: Named[]; // a few of the other values
  more: number; // the number of values left out
}

const FEW = 2;

/** The summary of a closed cell: a picture of an output, and a few values. */
export function glanceOf(cell: Cell): Glance {
  const from = cell.outs.length > 0 ? cell.outs : cell.ins;
  const picture = from.find(({ value }) => value.picture) ?? null;
  const otherValues = from.filter((named) => named !== picture);
  const shown = picture ? otherValues.slice(0, FEW) : otherValues.slice(0, FEW + 1);
  return { picture, values: shown, more: otherValues.length - shown.length };
}

export function secondsOf(cells: Cell[]): number | null {
  const durations = cells.map((cell) => cell.seconds).filter((seconds) => seconds !== null);
  return durations.length ? durations.reduce((sum, seconds) => sum + seconds, 0) : null;
}

export interface Chosen {
  item: number;
  stage: number;
}

/** The cell that an arrow key leads to, inside the grid. */
export function stepped(from: Chosen, key: string, items: number, stages: number): Chosen | null {
  const moves: Record<string, [number, number]> = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
    k: [-1, 0],
    j: [1, 0],
  };
  const move = moves[key];
  if (!move) return null;
  const clamp = (value: number, count: number) => Math.min(count - 1, Math.max(0, value));
  return { item: clamp(from.item + move[0], items), stage: clamp(from.stage + move[1], stages) };
}

/** Parses a cell such as "2:4" in the address. */
export function chosenOf(text: string | null, items: number, stages: number): Chosen | null {
  const match = /^(\d+):(\d+)$/.exec(text ?? "");
  if (!match) return null;
  const [item, stage] = [Number(match[1]), Number(match[2])];
  return item < items && stage < stages ? { item, stage } : null;
}
