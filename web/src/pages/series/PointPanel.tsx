import { useEffect, useState } from "preact/hooks";
import { runPath, useAnswer } from "../../api";
import { count, duration, place } from "../../format";
import { link } from "../../router";
import type { Axis, Point, RunId } from "../../types";
import { Button, Loading, Problem, useKeys, ValueDetail } from "../../ui";

interface PointPanelProps {
  run: RunId;
  name: string;
  axis: Axis;
  x: number;
  side: "left" | "right"; // the side of the plot opposite to the point
  onClose: () => void;
}

/** One recorded value with its place in the source and a link to its call. */
export function PointPanel({ run, name, axis, x, side, onClose }: PointPanelProps) {
  const [index, setIndex] = useState<number | null>(null);
  useEffect(() => setIndex(null), [run, name, axis, x]);
  const ask = index === null ? { name, axis, x } : { name, index };
  const { data, error, reload } = useAnswer<Point>(runPath(run, "point"), ask);
  useKeys({ Escape: onClose });
  const step = (by: number) => data && setIndex(Math.max(0, Math.min(data.total - 1, data.index + by)));
  return (
    <aside class={`point panel ${side}`} aria-label="The point">
      <header class="point-head">
        <h2 class="mono clip">{name}</h2>
        <Button
          kind="quiet"
          small
          icon="back"
          label="The value before"
          onClick={() => step(-1)}
          disabled={!data?.index}
        />
        <Button
          kind="quiet"
          small
          icon="right"
          label="The value after"
          onClick={() => step(1)}
          disabled={!data || data.index >= data.total - 1}
        />
        <Button kind="quiet" small icon="close" label="Close" onClick={onClose} />
      </header>
      {data ? <Details run={run} point={data} /> : error ? <Problem error={error} retry={reload} /> : <Loading />}
    </aside>
  );
}

function Details({ run, point }: { run: RunId; point: Point }) {
  return (
    <div class="point-body">
      <ValueDetail value={point.value} />
      <dl class="facts">
        {point.step !== null && <Fact name="Step" text={point.step} />}
        <Fact name="Time" text={`${duration(point.time)} after the start`} />
        <Fact name="Value" text={`${count(point.index + 1)} of ${count(point.total)}`} />
        <Fact name="Function" text={point.place.function} />
        <Fact name="Line" text={place(point.place)} hint={`${point.place.file}:${point.place.line}`} />
      </dl>
      {point.code && (
        <pre class="point-code">
          <code>{point.code}</code>
        </pre>
      )}
      {point.call !== null && (
        <a class="button" href={link.call(run, point.call, { of: point.name, nth: point.index })}>
          Show the call and its source
        </a>
      )}
    </div>
  );
}

function Fact({ name, text, hint }: { name: string; text: string; hint?: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="mono" title={hint}>
        {text}
      </dd>
    </div>
  );
}
