// One item at a time with its stages below each other, for screens too narrow for a table.

import { counted } from "../../format";
import type { Pipeline } from "../../types";
import { Button, Select } from "../../ui";
import { CellGlance } from "./CellView";
import { placeOf, type Chosen, type Grid } from "./grid";
import { Mark } from "./Wide";

interface NarrowProps {
  pipeline: Pipeline;
  grid: Grid;
  items: number[];
  item: number;
  onItem: (item: number) => void;
  onChoose: (chosen: Chosen) => void;
}

export function Narrow({ pipeline, grid, items, item, onItem, onChoose }: NarrowProps) {
  const at = Math.max(0, items.indexOf(item));
  const told = pipeline.items[items[at]];
  const options = items.map((each) => ({ value: String(each), text: pipeline.items[each].id }));
  return (
    <div class="pipe-narrow">
      <div class="pipe-step">
        <Button icon="back" label="The item before" disabled={at === 0} onClick={() => onItem(items[at - 1])} />
        <Select label="Item" value={String(items[at])} options={options} onChange={(text) => onItem(Number(text))} />
        <Button
          icon="right"
          label="The next item"
          disabled={at >= items.length - 1}
          onClick={() => onItem(items[at + 1])}
        />
      </div>
      <p class="muted pipe-told">
        {told.source}{" "}
        {told.loss !== null && (
          <span class="pipe-loss">
            loss <b>{told.loss}</b>
          </span>
        )}
      </p>
      <ol>
        {pipeline.stages.map((stage, index) => {
          const cells = grid.cells.get(placeOf(items[at], index));
          return (
            <li key={index}>
              <p class="pipe-stage">
                {stage.name} <Mark findings={grid.marks.get(index)} />{" "}
                <span class="faint">{counted(stage.calls, "call")}</span>
              </p>
              {cells ? (
                <button
                  type="button"
                  class="pipe-cell"
                  onClick={() => onChoose({ item: items[at], stage: index })}
                  aria-label={`${told.id} in ${stage.name}`}
                >
                  <CellGlance cells={cells} />
                </button>
              ) : (
                <p class="faint">This stage did not see this item.</p>
              )}
            </li>
          );
        })}
      </ol>
    </div>
  );
}
