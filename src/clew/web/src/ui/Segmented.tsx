import { classes } from "./classes";

interface SegmentedProps<T extends string> {
  label: string;
  value: T;
  options: { value: T; text: string; hint?: string; disabled?: boolean }[];
  onChange: (value: T) => void;
}

/** A few choices side by side, one of which holds. */
export function Segmented<T extends string>({ label, value, options, onChange }: SegmentedProps<T>) {
  return (
    <div class="segmented" role="radiogroup" aria-label={label}>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          role="radio"
          aria-checked={option.value === value}
          title={option.hint}
          disabled={option.disabled}
          class={classes(option.value === value && "on")}
          onClick={() => onChange(option.value)}
        >
          {option.text}
        </button>
      ))}
    </div>
  );
}
