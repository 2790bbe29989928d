import { Select } from "../../ui";

type At = (number | ":")[];

interface SlicerProps {
  dims: number[];
  at: At;
  onChange: (at: At) => void;
}

/** Chooses the plane of a tensor: two free dimensions, and a slider for each of the others. */
export function Slicer({ dims, at, onChange }: SlicerProps) {
  if (dims.length < 2) return null;
  const free = at.flatMap((each, dim) => (each === ":" ? [dim] : []));
  const [rows, cols] = free;
  const options = (but: number) =>
    dims.flatMap((size, dim) => (dim === but ? [] : [{ value: String(dim), text: `dim ${dim} (${size})` }]));
  return (
    <div class="slicer" role="group" aria-label="Slice">
      {dims.length > 2 && (
        <div class="slicer-free">
          <Select
            showLabel
            label="Planes of"
            value={String(rows)}
            options={options(cols)}
            onChange={(dim) => onChange(planeOf(at, Number(dim), cols))}
          />
          <Select
            showLabel
            label="by"
            value={String(cols)}
            options={options(rows)}
            onChange={(dim) => onChange(planeOf(at, rows, Number(dim)))}
          />
        </div>
      )}
      {at.map((each, dim) =>
        each === ":" ? null : (
          <label key={dim} class="slicer-dim">
            <span class="muted">dim {dim}</span>
            <input
              type="range"
              min={0}
              max={Math.max(0, dims[dim] - 1)}
              value={each}
              aria-label={`Place along dimension ${dim}`}
              onInput={(event) => onChange(at.map((old, i) => (i === dim ? Number(event.currentTarget.value) : old)))}
            />
            <output class="mono num">
              {each} / {dims[dim] - 1}
            </output>
          </label>
        ),
      )}
    </div>
  );
}

/** The same position with two other free dimensions; the previous free ones are fixed at 0. */
export function planeOf(at: At, one: number, other: number): At {
  return at.map((each, dim) => (dim === one || dim === other ? ":" : each === ":" ? 0 : each));
}
