import type { ComponentChildren } from "preact";
import type { Refusal } from "../types";
import { Button } from "./Button";
import { Icon } from "./icons";

/** An empty page, and how to fill it. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state" role="status">
      <p class="state-title">{title}</p>
      {children && <div class="state-text">{children}</div>}
    </div>
  );
}

/** What went wrong, and what to do about it. */
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

/** A first load. The message appears after a moment, because most answers arrive sooner. */
export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <div class="state loading" role="status">
      <span class="spinner" aria-hidden="true" />
      <span>{what} …</span>
    </div>
  );
}

/** A line above the content about a problem with it. */
export function Notice({ children, kind = "warn" }: { children: ComponentChildren; kind?: "warn" | "bad" | "info" }) {
  return (
    <div class={`notice ${kind}`} role="status">
      {kind !== "info" && <Icon name="warn" />}
      <div>{children}</div>
    </div>
  );
}

/** Text with `code` between backticks as <code>. */
export function withCode(text: string): ComponentChildren {
  return text.split("`").map((part, i) => (i % 2 ? <code key={i}>{part}</code> : part));
}
