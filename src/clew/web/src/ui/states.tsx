import type { ComponentChildren } from "preact";
import type { Refusal } from "../types";
import { Button } from "./Button";
import { Icon } from "./icons";

/** Nothing here, and what to do so that there is. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state" role="status">
      <p class="state-title">{title}</p>
      {children && <div class="state-text">{children}</div>}
    </div>
  );
}

/** What went wrong, and what to do. */
export function Problem({ error, retry }: { error: Refusal; retry?: () => void }) {
  return (
    <div class="state problem" role="alert">
      <Icon name="warn" size={20} />
      <p class="state-title">{withCode(error.error)}</p>
      {error.remedy && <div class="state-text">{withCode(error.remedy)}</div>}
      {retry && error.slug !== "not-in-report" && <Button onClick={retry}>Try again</Button>}
    </div>
  );
}

/** Awaited for the first time. Says so only after a moment: most answers are there before. */
export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <div class="state loading" role="status">
      <span class="spinner" aria-hidden="true" />
      <span>{what} …</span>
    </div>
  );
}

/** A line above what is shown: something is the matter with it, but it is shown. */
export function Notice({ children, kind = "warn" }: { children: ComponentChildren; kind?: "warn" | "bad" | "info" }) {
  return (
    <div class={`notice ${kind}`} role="status">
      {kind !== "info" && <Icon name="warn" />}
      <div>{children}</div>
    </div>
  );
}

/** `code` between backticks, as text in <code>. */
export function withCode(text: string): ComponentChildren {
  return text.split("`").map((part, i) => (i % 2 ? <code key={i}>{part}</code> : part));
}
