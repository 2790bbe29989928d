import { has, runPath, theReport } from "../../api";
import type { RunId } from "../../types";
import { Button, Icon, Segmented } from "../../ui";
import type { Shown } from "./curves";
import { AXES, type Options, setOptions } from "./options";

interface ControlsProps {
  run: RunId;
  runs: number;
  names: string[];
  options: Options;
  zoomed: boolean;
  onAxis: () => void; // called before the axis changes, which resets the zoom
  onWhole: () => void;
  onRuns: () => void;
}

export function Controls({ run, runs, names, options, zoomed, onAxis, onWhole, onRuns }: ControlsProps) {
  const { axis, log, split, weight } = options;
  const there = (value: string) => names.length === 0 || has(runPath(run, "series"), { name: names[0], axis: value });
  return (
    <div class="bar series-bar">
      <Segmented
        label="By"
        value={axis}
        options={AXES.map((each) => ({ ...each, disabled: !there(each.value) }))}
        onChange={(value) => {
          onAxis();
          setOptions({ axis: value });
        }}
      />
      <Button small pressed={log} hint="Logarithmic values" onClick={() => setOptions({ log: !log })}>
        Log
      </Button>
      <Button
        small
        pressed={split}
        disabled={names.length < 2}
        hint="A plot for each name"
        onClick={() => setOptions({ split: !split })}
      >
        Split
      </Button>
      <label class="slider">
        <span>Smooth</span>
        <input
          type="range"
          min="0"
          max="0.99"
          step="0.01"
          value={weight}
          aria-label="Smoothing"
          onInput={(event) => setOptions({ weight: Number(event.currentTarget.value) })}
        />
        <output class="mono">{weight.toFixed(2)}</output>
      </label>
      <span class="bar-space" />
      {!theReport() && (
        <Button small icon="compare" onClick={onRuns}>
          {runs > 1 ? `${runs} runs` : "More runs"}
        </Button>
      )}
      <Button small disabled={!zoomed} onClick={onWhole} hint="See all of it (double-click)">
        Whole
      </Button>
    </div>
  );
}

export function Legend({ shown, run, onRemove }: { shown: Shown[]; run: RunId; onRemove: (name: string) => void }) {
  return (
    <ul class="legend" aria-label="Curves shown">
      {shown.map((each) => (
        <li key={each.id}>
          <span class="swatch" style={{ background: each.colour }} />
          <span class="clip mono" title={each.name}>
            {each.name}
          </span>
          {each.runName !== null && <span class="muted clip">{each.runName}</span>}
          {each.run === run && (
            <button type="button" aria-label={`Take out ${each.name}`} onClick={() => onRemove(each.name)}>
              <Icon name="close" size={10} />
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}
