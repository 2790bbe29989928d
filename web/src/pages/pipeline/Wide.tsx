// Items as rows, stages as columns.

import { useEffect, useRef } from "preact/hooks";
import { counted } from "../../format";
import type { Finding, Pipeline } from "../../types";
import { classes, Icon } from "../../ui";
import { CellGlance } from "./CellView";
import { placeOf, stepped, type Chosen, type Grid } from "./grid";

interface WideProps {
  pipeline: Pipeline;
  grid: Grid;
  items: number[]; // the indices of the items that match the search
  chosen: Chosen | null;
  onChoose: (chosen: Chosen | null) => void;
}

export function Wide({ pipeline, grid, items, chosen, onChoose }: WideProps) {
  const table = useRef<HTMLTableElement>(null);
  useEffect(() => {
    const cell =
      chosen && table.current?.querySelector<HTMLElement>(`[data-at="${placeOf(chosen.item, chosen.stage)}"]`);
    cell?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [chosen?.item, chosen?.stage]);
  const keys = (event: KeyboardEvent): void => {
    const next = chosen && stepped(chosen, event.key, pipeline.items.length, pipeline.stages.length);
    if (!next) return;
    event.preventDefault();
    onChoose(next);
    const place = `[data-at="${placeOf(next.item, next.stage)}"]`;
    table.current?.querySelector<HTMLElement>(place)?.focus();
  };
  return (
    <div class="pipe-scroll">
      <table class="pipe-table" ref={table} onKeyDown={keys} aria-label="What each stage made of each item">
        <thead>
          <tr>
            <th scope="col" class="pipe-corner">
              Item
            </th>
            {pipeline.stages.map((stage, index) => (
              <th key={index} scope="col">
                <span class="pipe-stage">
                  {stage.name} <Mark findings={grid.marks.get(index)} />
                </span>
                <span class="faint">{counted(stage.calls, "call")}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map((item) => (
            <Row key={item} item={item} pipeline={pipeline} grid={grid} chosen={chosen} onChoose={onChoose} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface RowProps extends Omit<WideProps, "items"> {
  item: number;
}

function Row({ item, pipeline, grid, chosen, onChoose }: RowProps) {
  const itemInfo = pipeline.items[item];
  return (
    <tr>
      <th scope="row" class="pipe-item-head">
        <span class="mono clip" title={itemInfo.id}>
          {itemInfo.id}
        </span>
        {itemInfo.source && (
          <span class="muted clip" title={itemInfo.source}>
            {itemInfo.source}
          </span>
        )}
        {itemInfo.loss !== null && (
          <span class="pipe-loss">
            loss <b>{itemInfo.loss}</b>
          </span>
        )}
      </th>
      {pipeline.stages.map((stage, index) => {
        const cells = grid.cells.get(placeOf(item, index));
        const isChosen = chosen?.item === item && chosen.stage === index;
        return (
          <td key={index}>
            {cells ? (
              <button
                type="button"
                class={classes("pipe-cell", isChosen && "chosen")}
                data-at={placeOf(item, index)}
                aria-pressed={isChosen}
                aria-label={`${itemInfo.id} in ${stage.name}`}
                onClick={() => onChoose(isChosen ? null : { item, stage: index })}
              >
                <CellGlance cells={cells} />
              </button>
            ) : (
              <span class="pipe-none" title="This stage did not see this item">
                –
              </span>
            )}
          </td>
        );
      })}
    </tr>
  );
}

export function Mark({ findings }: { findings: Finding[] | undefined }) {
  if (!findings) return null;
  const text = findings.map((finding) => finding.text).join("\n");
  return (
    <span class="pipe-mark" title={text} role="img" aria-label={`${counted(findings.length, "finding")}: ${text}`}>
      <Icon name="warn" size={14} />
    </span>
  );
}
