import { useEffect, useRef, useState } from "preact/hooks";
import { count } from "../../format";
import { Button, useKeys } from "../../ui";

const PACE = 450; // ms per change
const LONGEST = 30_000; // ms for all of them

interface PlayerProps {
  total: number;
  at: number;
  onAt: (at: number) => void;
}

/** Steps through the changes of a call: by slider, by keys, or automatically. */
export function Player({ total, at, onAt }: PlayerProps) {
  const [playing, setPlaying] = useState(false);
  const now = useRef(at);
  now.current = at;
  const step = (by: number): void => onAt(Math.min(total, Math.max(0, now.current + by)));
  const stride = Math.max(1, Math.ceil((total * PACE) / LONGEST)); // long calls are played several changes at a time
  useEffect(() => {
    if (!playing) return;
    const timer = window.setInterval(() => {
      if (now.current >= total) setPlaying(false);
      else step(stride);
    }, PACE);
    return () => window.clearInterval(timer);
  }, [playing, total]);
  const toggle = (): void => {
    if (!playing && at >= total) onAt(0);
    setPlaying(!playing);
  };
  const byHand = (by: number): void => {
    setPlaying(false);
    step(by);
  };
  useKeys({ ",": () => byHand(-1), ".": () => byHand(1), p: toggle });
  return (
    <div class="player" role="group" aria-label="Through the changes of this call">
      <Button
        small
        kind="quiet"
        icon="back"
        label="One change back (,)"
        disabled={at <= 0}
        onClick={() => byHand(-1)}
      />
      <button
        type="button"
        class="button small player-play"
        aria-label={playing ? "Pause (p)" : "Play (p)"}
        title={playing ? "Pause (p)" : "Play (p)"}
        onClick={toggle}
      >
        <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
          <path d={playing ? "M3 2h2v8H3zM7 2h2v8H7z" : "M3 1.5 10 6l-7 4.500z"} fill="currentColor" />
        </svg>
      </button>
      <Button
        small
        kind="quiet"
        icon="right"
        label="One change on (.)"
        disabled={at >= total}
        onClick={() => byHand(1)}
      />
      <input
        type="range"
        min={0}
        max={total}
        value={at}
        aria-label="Change"
        aria-valuetext={`after ${at} of ${total} changes`}
        onInput={(event) => {
          setPlaying(false);
          onAt(Number((event.currentTarget as HTMLInputElement).value));
        }}
      />
      <span class="player-at">
        {count(at)}
        <span class="faint"> / {count(total)}</span>
      </span>
    </div>
  );
}
