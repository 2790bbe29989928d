import { useEffect, useRef } from "preact/hooks";

/** Whether keys belong to a field one writes in. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return !!target?.closest?.("input:not([type=range]):not([type=checkbox]), textarea, select, [contenteditable]");
}

/** Whether Enter or the space bar already mean something where the focus is. */
function isPressing(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return (event.key === "Enter" || event.key === " ") && !!target?.closest?.('button, a, input, [tabindex="0"]');
}

/** Keys of the whole page while the component is there; not while one types, nor with Ctrl, Alt or Cmd. */
export function useKeys(keys: Record<string, (event: KeyboardEvent) => void>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (isTyping(event) || isPressing(event)) return;
      const act = latest.current[event.key];
      if (!act) return;
      event.preventDefault();
      act(event);
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}
