import { useState } from "preact/hooks";
import { useSettled } from "../../answers";
import { has, runPath, useAnswer } from "../../api";
import { count, number, place, shape } from "../../format";
import { scaleFor } from "../../plot/colours";
import { HeatMap, ScaleLegend } from "../../plot/HeatMap";
import { link, setParams } from "../../router";
import type { Point, RunId, Slice } from "../../types";
import { Button, Loading, Picture, Problem, Segmented, StatsTable, ValueDetail } from "../../ui";
import { Slicer } from "./Slicer";

interface SliceProps {
  run: RunId;
  name: string;
  index: number;
  total: number;
  where: string | null; // "step 12"
  kept: number | null; // the nearest tensor whose values were kept
  at: string | null;
  onOpen: (index: number) => void;
}

/** One tensor: a plane of it as colours, or as a picture if it is one. */
export function SlicePanel({ run, name, index, total, where, kept, at, onOpen }: SliceProps) {
  const { data, error, stale, reload } = useAnswer<Slice>(runPath(run, "slice"), { name, index, at, px: 256 });
  const step = (by: number) => onOpen(Math.max(0, Math.min(total - 1, index + by)));
  return (
    <section class="tensor-part">
      <header class="tensor-head">
        <h3>Values</h3>
        <span>
          tensor {count(index + 1)} of {count(total)}
          {where && <span class="muted"> · {where}</span>}
        </span>
        <Button
          kind="quiet"
          small
          icon="back"
          label="The tensor before"
          disabled={index <= 0}
          onClick={() => step(-1)}
        />
        <Button
          kind="quiet"
          small
          icon="right"
          label="The tensor after"
          disabled={index >= total - 1}
          onClick={() => step(1)}
        />
        <input
          type="range"
          class="tensor-slider"
          min={0}
          max={Math.max(0, total - 1)}
          value={index}
          aria-label="Which tensor"
          onInput={(event) => onOpen(Number(event.currentTarget.value))}
        />
      </header>
      {error && !data ? (
        <>
          <Problem error={error} retry={reload} />
          <div class="tensor-ways">
            {kept !== null && kept !== index && (
              <Button onClick={() => onOpen(kept)}>To the nearest that was kept: {count(kept + 1)}</Button>
            )}
            {at && <Button onClick={() => setParams({ at: null })}>Another plane</Button>}
          </div>
        </>
      ) : data ? (
        <>
          <Plane data={data} stale={stale} />
          <Origin run={run} name={name} index={index} />
        </>
      ) : (
        <Loading what="Reading the values" />
      )}
    </section>
  );
}

/** The source line that recorded it, and a link to its call. */
function Origin({ run, name, index }: { run: RunId; name: string; index: number }) {
  const settled = useSettled(index, 300); // skips the tensors that the slider passes quickly
  const path = has(runPath(run, "point"), { name, index: settled }) ? runPath(run, "point") : null;
  const { data: point } = useAnswer<Point>(path, { name, index: settled });
  if (!point) return null;
  return (
    <p class="tensor-origin">
      <span class="mono" title={`${point.place.file}:${point.place.line}`}>
        {place(point.place)}
      </span>
      {point.code && <code>{point.code}</code>}
      {point.call !== null && (
        <a href={link.call(run, point.call, { of: name, nth: settled })}>Show the call and its source</a>
      )}
    </p>
  );
}

function Plane({ data, stale }: { data: Slice; stale: boolean }) {
  const [wanted, setLook] = useState<"values" | "image" | null>(null);
  const look = wanted ?? (isImage(data) ? "image" : "values");
  const scale = scaleFor(data.low, data.high);
  const image = look === "image" && data.picture;
  return (
    <div class={stale ? "plane stale" : "plane"}>
      <div class="plane-picture">
        {image ? (
          <Picture source={image} label="The tensor as an image" class="plane-image" />
        ) : data.rows * data.cols === 0 ? (
          <p class="muted">No values: the shape is {shape(data.shape)}.</p>
        ) : (
          <>
            <HeatMap
              rows={data.rows}
              cols={data.cols}
              data={data.data}
              scale={scale}
              label={`Values of ${data.dtype} ${shape(data.shape)} at ${data.at.join(", ")}`}
              tip={(row, col) => <CellTip data={data} row={row} col={col} />}
            />
            <ScaleLegend scale={scale} missing={data.data.includes(null)} />
            {data.reduced && (
              <p class="faint">Each cell is the mean of several values: there are more than fit here.</p>
            )}
          </>
        )}
      </div>
      <div class="plane-side">
        {data.picture && (
          <Segmented
            label="Shown as"
            value={look}
            options={[
              { value: "values", text: "Values" },
              { value: "image", text: "Image" },
            ]}
            onChange={setLook}
          />
        )}
        {!image && <Slicer dims={data.shape} at={data.at} onChange={(at) => setParams({ at: at.join(",") })} />}
        {data.value.stats ? <StatsTable stats={data.value.stats} /> : <ValueDetail value={data.value} />}
      </div>
    </div>
  );
}

/** Bytes in one, three or four channels are first shown as an image. */
export function isImage({ dtype, shape, picture }: Pick<Slice, "dtype" | "shape" | "picture">): boolean {
  if (!picture || !/uint8$/.test(dtype) || shape.length !== 3) return false;
  const [first, middle, last] = shape;
  const channels = (count: number) => count === 1 || count === 3 || count === 4;
  return (channels(last) && Math.min(first, middle) >= 8) || (channels(first) && Math.min(middle, last) >= 8);
}

function CellTip({ data, row, col }: { data: Slice; row: number; col: number }) {
  const value = data.data[row * data.cols + col];
  return (
    <>
      <div class="tip-head mono">[{cellPlace(data, row, col).join(", ")}]</div>
      <b class="mono">{value === null ? "NaN or Inf" : number(value, 7)}</b>
    </>
  );
}

/** The position of a cell in the tensor: "0, 2, 14, 3"; for a mean, that of its first value. */
export function cellPlace(data: Slice, row: number, col: number): string[] {
  const free = data.at.flatMap((each, dim) => (each === ":" ? [dim] : []));
  const cells =
    free.length === 1
      ? [[col, data.cols]]
      : [
          [row, data.rows],
          [col, data.cols],
        ];
  let next = 0;
  return data.at.map((each, dim) => {
    if (each !== ":") return String(each);
    const [cell, of] = cells[next++];
    const first = Math.floor((cell * data.shape[dim]) / of);
    return data.shape[dim] > of ? `${first}…` : String(first);
  });
}
