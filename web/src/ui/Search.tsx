import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./icons";

interface SearchProps {
  value: string;
  onChange: (value: string) => void;
  label: string; // "Search names"
  delay?: number; // ms without typing before onChange; 0 for lists that are already loaded
  onKeyDown?: (event: KeyboardEvent) => void;
}

/** The search field of a page. `/` focuses it from anywhere; Esc empties it, and then leaves it. */
export function Search({ value, onChange, label, delay = 0, onKeyDown }: SearchProps) {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  const reported = useRef(value);
  useEffect(() => {
    if (value !== reported.current) setText(value);
    reported.current = value;
  }, [value]);
  useEffect(() => () => window.clearTimeout(timer.current), []);

  const change = (next: string, wait: number) => {
    setText(next);
    window.clearTimeout(timer.current);
    const tell = () => {
      reported.current = next;
      onChange(next);
    };
    if (wait) timer.current = window.setTimeout(tell, wait);
    else tell();
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      if (text) change("", 0);
      else (event.currentTarget as HTMLElement).blur();
    } else onKeyDown?.(event);
  };
  return (
    <div class="search">
      <Icon name="search" />
      <input
        type="text"
        role="searchbox"
        data-search
        spellcheck={false}
        autocomplete="off"
        aria-label={label}
        placeholder={label}
        value={text}
        onInput={(event) => change((event.currentTarget as HTMLInputElement).value, delay)}
        onKeyDown={keys}
      />
      {text ? (
        <button type="button" class="search-clear" aria-label="Clear" onClick={() => change("", 0)}>
          <Icon name="close" size={12} />
        </button>
      ) : (
        <kbd aria-hidden="true">/</kbd>
      )}
    </div>
  );
}
