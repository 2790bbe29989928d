import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Button } from "./Button";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  actions?: ComponentChildren;
  wide?: boolean;
}

/** A modal dialog. It traps the focus and restores it on closing; Esc and a click outside close it. */
export function Dialog({ title, onClose, children, actions, wide }: DialogProps) {
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const first = box.current?.querySelector<HTMLElement>("[autofocus], .dialog-body input, .dialog-actions button");
    (first ?? box.current)?.focus();
    return () => before?.focus?.();
  }, []);
  const keys = (event: KeyboardEvent) => {
    event.stopPropagation(); // the page's own keys are inactive while a dialog is open
    if (event.key === "Escape") onClose();
    if (event.key === "Tab") keepInside(event, box.current!);
  };
  return (
    <div class="dialog-back" onMouseDown={(event) => event.target === event.currentTarget && onClose()}>
      <div
        ref={box}
        class={wide ? "dialog wide" : "dialog"}
        role="dialog"
        aria-modal="true"
        aria-labelledby={id}
        tabIndex={-1}
        onKeyDown={keys}
      >
        <header class="dialog-head">
          <h2 id={id}>{title}</h2>
          <Button kind="quiet" icon="close" label="Close" onClick={onClose} />
        </header>
        <div class="dialog-body">{children}</div>
        {actions && <footer class="dialog-actions">{actions}</footer>}
      </div>
    </div>
  );
}

function keepInside(event: KeyboardEvent, box: HTMLElement): void {
  const all = [...box.querySelectorAll<HTMLElement>("button, input, select, textarea, a[href]")].filter(
    (element) => !element.hasAttribute("disabled"),
  );
  if (all.length === 0) return;
  const edge = event.shiftKey ? all[0] : all[all.length - 1];
  if (document.activeElement !== edge && document.activeElement !== box) return;
  event.preventDefault();
  (event.shiftKey ? all[all.length - 1] : all[0]).focus();
}
