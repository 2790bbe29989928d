import { classes } from "./classes";

interface SegmentedProps<T extends string> {
  label: string;
  value: T;
  options: { value: T; text: string; hint?: string; disabled?: boolean }[];
  onChange: (value: T) => void;
}

const STEPS: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** A few choices side by side, one of which is selected. Tab reaches that one, arrow keys the others. */
export function Segmented<T extends string>({ label, value, options, onChange }: SegmentedProps<T>) {
  const keys = (event: KeyboardEvent & { currentTarget: HTMLElement }): void => {
    const step = STEPS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation(); // surrounding elements may use the arrow keys differently
    const able = options.filter((option) => !option.disabled);
    const next = able[(able.findIndex((option) => option.value === value) + step + able.length) % able.length];
    if (!next) return;
    onChange(next.value);
    event.currentTarget.querySelectorAll("button")[options.indexOf(next)]?.focus();
  };
  return (
    <div class="segmented" role="radiogroup" aria-label={label} onKeyDown={keys}>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          role="radio"
          aria-checked={option.value === value}
          tabIndex={option.value === value ? 0 : -1}
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
