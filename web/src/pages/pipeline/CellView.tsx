// An item in a stage: a summary in the grid, and the details beside it.

import { counted, duration, place } from "../../format";
import type { Cell, Named, Pipeline } from "../../types";
import { Button, Empty, kindOf, Picture, Value, ValueDetail } from "../../ui";
import { glanceOf, secondsOf, type Chosen } from "./grid";

export function CellGlance({ cells }: { cells: Cell[] }) {
  const last = cells[cells.length - 1];
  const { picture, values, more } = glanceOf(last);
  return (
    <>
      {picture?.value.picture && (
        <Picture
          source={picture.value.picture}
          label={`${picture.name}: ${kindOf(picture.value)}`}
          class="pipe-picture"
        />
      )}
      <span class="pipe-values">
        {picture && <span class="pipe-kind">{kindOf(picture.value)}</span>}
        {values.map((named, i) => (
          <span key={i} class="pipe-value">
            <span class="pipe-name">{named.name}</span>
            <Value value={named.value} class="clip" />
          </span>
        ))}
        <span class="pipe-foot">
          {[duration(secondsOf(cells)), cells.length > 1 && `${cells.length} times`, more > 0 && `${more} more`]
            .filter(Boolean)
            .join(" · ")}
        </span>
      </span>
    </>
  );
}

interface CellDetailProps {
  pipeline: Pipeline;
  chosen: Chosen;
  cells: Cell[];
  onClose: () => void;
}

export function CellDetail({ pipeline, chosen, cells, onClose }: CellDetailProps) {
  const item = pipeline.items[chosen.item];
  const stage = pipeline.stages[chosen.stage];
  return (
    <>
      <header class="pipe-detail-head">
        <div class="clip">
          <h2 class="clip">{stage.name}</h2>
          <span class="muted clip">{item.id}</span>
        </div>
        <Button kind="quiet" icon="close" label="Close" onClick={onClose} />
      </header>
      {cells.length === 0 && <Empty title="This stage did not see this item." />}
      {cells.map((cell, index) => (
        <section key={index} class="pipe-pass">
          <CellFacts cell={cell} pass={cells.length > 1 ? index + 1 : null} />
          <NamedList title="In" values={cell.ins} />
          <NamedList title="Out" values={cell.outs} />
        </section>
      ))}
    </>
  );
}

function CellFacts({ cell, pass }: { cell: Cell; pass: number | null }) {
  return (
    <p class="pipe-facts">
      {pass !== null && <span class="chip">time {pass}</span>}
      <span class="mono">{cell.function}</span>
      {cell.place && (
        <span class="muted" title={`${cell.place.file}:${cell.place.line}`}>
          {place(cell.place)}
        </span>
      )}
      {cell.seconds !== null && <span class="muted">{duration(cell.seconds)}</span>}
      {cell.where && <span class="chip">{cell.where}</span>}
      {cell.row !== null && <span class="chip">row {cell.row}</span>}
    </p>
  );
}

function NamedList({ title, values }: { title: string; values: Named[] }) {
  return (
    <div class="pipe-list">
      <h3>
        {title} <span class="faint">{values.length === 0 ? "nothing" : counted(values.length, "value")}</span>
      </h3>
      {values.map(({ name, value }, index) => (
        <div key={index} class="pipe-item">
          <span class="pipe-name">{name}</span>
          <ValueDetail value={value} />
        </div>
      ))}
    </div>
  );
}
