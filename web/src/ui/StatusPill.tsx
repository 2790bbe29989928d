import type { Status } from "../types";

const TEXT: Record<Status, string> = {
  running: "running",
  finished: "finished",
  incomplete: "incomplete",
  failed: "failed",
  interrupted: "interrupted",
  exited: "exited",
  killed: "killed",
};

export function StatusPill({ status, error }: { status: Status; error?: string | null }) {
  return (
    <span class={`pill ${status}`} title={error ?? undefined}>
      <span class="pill-dot" aria-hidden="true" />
      {TEXT[status] ?? status}
    </span>
  );
}
