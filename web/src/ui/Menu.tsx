import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "./Button";
import { Icon, type IconName } from "./icons";

export interface MenuItem {
  text: string;
  icon?: IconName;
  danger?: boolean;
  disabled?: boolean;
  onClick: () => void;
}

/** A button that opens a short list of actions. */
export function Menu({ label, items }: { label: string; items: MenuItem[] }) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    box.current?.querySelector<HTMLElement>("[role=menuitem]:not(:disabled)")?.focus();
    const outside = (event: MouseEvent) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("mousedown", outside);
    return () => document.removeEventListener("mousedown", outside);
  }, [open]);
  const close = () => {
    setOpen(false);
    box.current?.querySelector<HTMLElement>("button")?.focus();
  };
  const keys = (event: KeyboardEvent) => {
    if (!open) return;
    const all = [...box.current!.querySelectorAll<HTMLElement>("[role=menuitem]:not(:disabled)")];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (step) all[(at + step + all.length) % all.length]?.focus();
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="menu" ref={box} onKeyDown={keys}>
      <Button kind="quiet" icon="more" label={label} onClick={() => setOpen(!open)} pressed={open || undefined} />
      {open && (
        <div class="menu-list" role="menu" aria-label={label}>
          {items.map((item) => (
            <button
              key={item.text}
              type="button"
              role="menuitem"
              disabled={item.disabled}
              class={item.danger ? "danger" : ""}
              onClick={() => {
                close();
                item.onClick();
              }}
            >
              {item.icon && <Icon name={item.icon} />}
              {item.text}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
