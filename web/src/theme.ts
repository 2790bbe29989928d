import { useEffect, useState } from "preact/hooks";

export type Theme = "auto" | "light" | "dark";

const KEY = "clew-theme";

function stored(): Theme {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === "light" || theme === "dark" ? theme : "auto";
  } catch {
    return "auto"; // a page from disk or in a sandboxed frame may have no storage
  }
}

function apply(theme: Theme): void {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function restoreTheme(): void {
  apply(stored());
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState(stored);
  const choose = (next: Theme) => {
    setTheme(next);
    apply(next);
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // without storage, it lasts until the page is closed
    }
    window.dispatchEvent(new Event("clew-colours"));
  };
  return [theme, choose];
}

/** The colours of CSS variables for canvases, which cannot use them; redraws when the theme changes. */
export function useColours(): (name: string) => string {
  const [, again] = useState(0);
  useEffect(() => {
    const draw = () => again((n) => n + 1);
    const system = window.matchMedia?.("(prefers-color-scheme: dark)");
    window.addEventListener("clew-colours", draw);
    system?.addEventListener("change", draw);
    return () => {
      window.removeEventListener("clew-colours", draw);
      system?.removeEventListener("change", draw);
    };
  }, []);
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(name).trim() || "#888";
}
