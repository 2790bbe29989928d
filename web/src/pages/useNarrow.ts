import { useEffect, useState } from "preact/hooks";

const NARROW = "(max-width: 640px)";

/** Whether the window is as narrow as a telephone; for pages that are built otherwise there, not only styled. */
export function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(() => window.matchMedia?.(NARROW).matches ?? false);
  useEffect(() => {
    const media = window.matchMedia?.(NARROW);
    const look = () => setNarrow(media.matches);
    media?.addEventListener("change", look);
    return () => media?.removeEventListener("change", look);
  }, []);
  return narrow;
}
