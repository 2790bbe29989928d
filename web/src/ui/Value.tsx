import { count, number, shape } from "../format";
import type { Stats, ValueBox } from "../types";
import { classes } from "./classes";

/** A value in one line: its text, and its type if the text does not show it. */
export function Value({ value, class: extra }: { value: ValueBox; class?: string }) {
  return (
    <span class={classes("value", value.kept, extra)} title={hint(value)}>
      <span class="value-text">{value.text}</span>
      {value.cut ? <span class="value-cut"> … {count(value.cut)} more</span> : null}
    </span>
  );
}

/** "float32 (64, 10) on cuda:0", or the type. */
export function kindOf(value: ValueBox): string {
  if (!value.shape) return value.type;
  const device = value.device && value.device !== "cpu" ? ` on ${value.device}` : "";
  return `${value.dtype ?? value.type} ${shape(value.shape)}${device}`;
}

function hint(value: ValueBox): string {
  return value.why ? `${kindOf(value)} · ${value.why}` : kindOf(value);
}

/** A value with all its facts: text, type, shape, statistics, picture. */
export function ValueDetail({ value }: { value: ValueBox }) {
  return (
    <div class="value-detail">
      <div class="value-kind">
        <span class="chip mono">{value.type}</span>
        {value.shape && <span class="chip mono">{shape(value.shape)}</span>}
        {value.dtype && <span class="chip mono">{value.dtype}</span>}
        {value.device && <span class="chip mono">{value.device}</span>}
      </div>
      {value.picture && <Picture source={value.picture} label={`Picture of ${kindOf(value)}`} />}
      <pre class="value-block">
        {value.text}
        {value.cut ? <span class="value-cut"> … {count(value.cut)} more characters</span> : null}
      </pre>
      {value.kept !== "full" && <p class="value-why">{value.why ?? KEPT[value.kept]}</p>}
      {value.stats && <StatsTable stats={value.stats} />}
    </div>
  );
}

const KEPT = {
  part: "Kept in part.",
  summary: "Only a summary of it was kept.",
  opaque: "Only its type was kept.",
};

/** Shows only pictures contained in the answer; nothing is fetched. */
export function Picture({ source, label, class: extra }: { source: string; label: string; class?: string }) {
  if (!source.startsWith("data:image/")) return null;
  return <img class={classes("picture", extra)} src={source} alt={label} loading="lazy" />;
}

export function StatsTable({ stats }: { stats: Stats }) {
  const rows = statsRows(stats);
  if (rows.length === 0) return null;
  return (
    <dl class="stats">
      {rows.map(([name, text]) => (
        <div key={name} class={name === "NaN" || name === "Inf" ? "bad" : ""}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The statistics as rows; NaN and Inf only if there are any. */
export function statsRows(stats: Stats): [string, string][] {
  const rows = (["min", "max", "mean", "std", "norm"] as const)
    .filter((key) => stats[key] !== undefined)
    .map((key): [string, string] => [key, number(stats[key])]);
  const { zeros, nan, inf } = stats;
  if (zeros !== undefined && zeros !== null) rows.push(["zeros", `${number(zeros * 100, 3)} %`]); // a fraction of all
  if (nan) rows.push(["NaN", count(nan)]);
  if (inf) rows.push(["Inf", count(inf)]);
  return rows;
}
