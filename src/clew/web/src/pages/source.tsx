// The source of one call, on a page of its own.

import { setParams } from "../router";
import type { RunId } from "../types";
import { Empty } from "../ui";
import { CallPanel } from "./tree/CallPanel";
import { link } from "../router";
import "../styles/tree.css";

export function Source({ run, params }: { run: RunId; params: URLSearchParams }) {
  const call = params.get("call");
  const at = params.get("at");
  if (call === null) {
    return (
      <Empty title="No call was chosen.">
        Choose one in <a href={link.run(run, "tree")}>the tree</a>.
      </Empty>
    );
  }
  return (
    <section class="tree-call alone" aria-label="The chosen call">
      <CallPanel run={run} call={call} at={at === null ? null : Number(at)} onAt={(next) => setParams({ at: next })} />
    </section>
  );
}
