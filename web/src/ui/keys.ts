import { useEffect, useRef } from "preact/hooks";

/** Whether the event comes from a text field. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return !!target?.closest?.("input:not([type=range]):not([type=checkbox]), textarea, select, [contenteditable]");
}

/** Whether the focused element already uses Enter or the space bar. */
function isPressing(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return (event.key === "Enter" || event.key === " ") && !!target?.closest?.('button, a, input, [tabindex="0"]');
}

/** Page-wide keys while the component is mounted; not while typing, nor with Ctrl, Alt or Cmd. */
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
