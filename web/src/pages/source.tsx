// The source of one call, on a page of its own.

import { setParams } from "../router";
import type { RunId } from "../types";
import { Empty } from "../ui";
import { AFTER_ALL, momentOf } from "./source/SourcePanel";
import { CallPanel } from "./tree/CallPanel";
import { link } from "../router";
import "../styles/tree.css";

export function Source({ run, params }: { run: RunId; params: URLSearchParams }) {
  const call = params.get("call");
  if (call === null) {
    return (
      <Empty title="No call was chosen.">
        Choose one in <a href={link.run(run, "tree")}>the tree</a>.
      </Empty>
    );
  }
  return (
    <section class="tree-call alone" aria-label="The chosen call">
      <CallPanel run={run} call={call} at={momentOf(params)} onAt={(at) => setParams({ ...AFTER_ALL, at })} />
    </section>
  );
}
