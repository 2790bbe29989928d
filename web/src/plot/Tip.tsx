import { number } from "../format";
import type { Axis } from "../types";
import type { Hover } from "./interactions";
import { markText, onAxis } from "./lines";

const MOST = 12; // lines in a tip

/** The values under the cursor, shown beside it. */
export function Tip({ hover, axis, width }: { hover: Hover; axis: Axis; width: number }) {
  const right = hover.left > width / 2;
  const side = right ? { right: `${width - hover.left + 12}px` } : { left: `${hover.left + 12}px` };
  return (
    <div class="tip" style={{ ...side, top: "8px" }} aria-hidden="true">
      <div class="tip-head">
        {axis} {onAxis(axis, hover.x)}
      </div>
      {hover.points.slice(0, MOST).map(({ line, i }) => (
        <div key={line.id} class="tip-row">
          <span class="swatch" style={{ background: line.colour }} />
          <span class="clip">{line.label}</span>
          <b>{number(line.y[i])}</b>
          {line.bands.length > 0 && (
            <span class="faint">
              {number(line.bands[0].low[i], 3)} … {number(line.bands[0].high[i], 3)}
            </span>
          )}
        </div>
      ))}
      {hover.points.length > MOST && <div class="muted">and {hover.points.length - MOST} more</div>}
      {hover.mark && <div class="tip-mark">{markText(hover.mark)}</div>}
    </div>
  );
}
