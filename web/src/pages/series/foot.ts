import { count, counted } from "../../format";
import type { Axis, Curve } from "../../types";

/** A note on what a plot leaves out and how it was drawn. */
export function footText(curves: Curve[], asked: Axis, shown: Axis, log: boolean): string {
  if (curves.length === 0) return "";
  const sum = (of: (curve: Curve) => number) => curves.reduce((all, curve) => all + of(curve), 0);
  const marks = sum((curve) => curve.marksTotal);
  const marked = sum((curve) => curve.marks.length);
  const hidden = log ? sum((curve) => curve.y.filter((y) => y !== null && y <= 0).length) : 0;
  const points = counted(
    sum((curve) => curve.x.length),
    "point",
  );
  return [
    inSight(
      sum((curve) => curve.inside),
      sum((curve) => curve.total),
    ),
    curves.some((curve) => curve.reduced) && `drawn as ${points} with the lowest and highest of each stretch`,
    marks > 0 && `${counted(marks, "value")} not finite or not a number`,
    marked < marks && `${count(marked)} of them marked`,
    hidden > 0 && `${counted(hidden, "point")} not above 0: not on a log axis`,
    asked !== shown && `by ${shown}: these steps are no numbers`,
  ]
    .filter(Boolean)
    .join(" · ");
}

function inSight(inside: number, total: number): string {
  const all = counted(total, "value");
  if (Number.isNaN(inside)) return `a part of ${all}`;
  return inside < total ? `${count(inside)} of ${all} in sight` : all;
}
