interface SelectProps<T extends string> {
  label: string;
  value: T;
  options: { value: T; text: string }[];
  onChange: (value: T) => void;
  showLabel?: boolean;
}

export function Select<T extends string>({ label, value, options, onChange, showLabel }: SelectProps<T>) {
  return (
    <label class="select">
      {showLabel && <span class="select-label">{label}</span>}
      <select
        aria-label={label}
        value={value}
        onChange={(event) => onChange((event.currentTarget as HTMLSelectElement).value as T)}
      >
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.text}
          </option>
        ))}
      </select>
    </label>
  );
}
