// The inputs and outputs of every item at every stage, and the findings of check().

import { useMemo, useState } from "preact/hooks";
import { runPath, useAnswer, useOverview } from "../api";
import { count, counted } from "../format";
import { setParams } from "../router";
import type { Pipeline as Answer, RunId } from "../types";
import { Button, Dialog, Empty, Loading, Problem, Search, Select, useKeys } from "../ui";
import { CellDetail } from "./pipeline/CellView";
import { Findings } from "./pipeline/Findings";
import { chosenOf, gridOf, placeOf, type Chosen } from "./pipeline/grid";
import { Narrow } from "./pipeline/Narrow";
import { Wide } from "./pipeline/Wide";
import { useNarrow } from "./useNarrow";
import "../styles/pipeline.css";

export function Pipeline({ run, params }: { run: RunId; params: URLSearchParams }) {
  const asked = { trace: params.get("trace"), offset: params.get("from") };
  const none = useOverview()?.pages.pipeline === false;
  const path = none ? null : runPath(run, "pipeline");
  const { data, error, reload } = useAnswer<Answer>(path, asked, { live: true });
  if (none) return <NoPipeline />;
  if (error && !data) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading what="Reading the pipeline" />;
  if (data.traces === 0 || data.stages.length === 0) return <NoPipeline />;
  return <Shown key={`${data.trace} ${data.offset}`} pipeline={data} params={params} />;
}

function NoPipeline() {
  return (
    <Empty title="This run has no pipeline.">
      Let a few items through with <code>with clew.items(3):</code>, and mark stages with{" "}
      <code>@clew.stage("name")</code>.
    </Empty>
  );
}

function Shown({ pipeline, params }: { pipeline: Answer; params: URLSearchParams }) {
  const narrow = useNarrow();
  const grid = useMemo(() => gridOf(pipeline), [pipeline]);
  const [search, setSearch] = useState("");
  const items = useMemo(() => fitting(pipeline, search), [pipeline, search]);
  const chosen = chosenOf(params.get("cell"), pipeline.items.length, pipeline.stages.length);
  const choose = (next: Chosen | null) => setParams({ cell: next && `${next.item}:${next.stage}` });
  useKeys(chosen === null ? {} : { Escape: () => choose(null) });
  const cells = chosen ? (grid.cells.get(placeOf(chosen.item, chosen.stage)) ?? []) : [];
  const detail = chosen && (
    <CellDetail pipeline={pipeline} chosen={chosen} cells={cells} onClose={() => choose(null)} />
  );
  return (
    <div class="pipe">
      <Head pipeline={pipeline} search={search} onSearch={setSearch} />
      <Findings findings={pipeline.findings} />
      {items.length === 0 && <Empty title={search ? "No item fits." : "No item went through this pipeline."} />}
      {items.length > 0 && narrow && (
        <Narrow
          pipeline={pipeline}
          grid={grid}
          items={items}
          item={Number(params.get("item") ?? items[0])}
          onItem={(item) => setParams({ item, cell: null })}
          onChoose={choose}
        />
      )}
      {items.length > 0 && !narrow && (
        <div class="pipe-panes">
          <Wide pipeline={pipeline} grid={grid} items={items} chosen={chosen} onChoose={choose} />
          {detail && (
            <aside class="pipe-detail" aria-label="The chosen cell">
              {detail}
            </aside>
          )}
        </div>
      )}
      {narrow && chosen && (
        <Dialog title="What the stage made of it" onClose={() => choose(null)}>
          <div class="pipe-detail">{detail}</div>
        </Dialog>
      )}
    </div>
  );
}

function Head({ pipeline, search, onSearch }: { pipeline: Answer; search: string; onSearch: (text: string) => void }) {
  const [first, ...rest] = pipeline.head;
  const traces = Array.from({ length: pipeline.traces }, (_, i) => ({
    value: String(i),
    text: `Trace ${i + 1} of ${pipeline.traces}`,
  }));
  return (
    <div class="bar pipe-head">
      {pipeline.traces > 1 && (
        <Select
          label="Trace"
          value={String(pipeline.trace)}
          options={traces}
          onChange={(trace) => setParams({ trace, from: null, cell: null, item: null })}
        />
      )}
      {pipeline.total > pipeline.items.length && <Pager pipeline={pipeline} />}
      <div class="pipe-summary">
        <span>{first ?? counted(pipeline.items.length, "item")}</span>
        {rest.map((line, index) => (
          <span key={index} class="muted">
            {line}
          </span>
        ))}
      </div>
      <Search
        value={search}
        label={pipeline.total > pipeline.items.length ? "Search these items" : "Search items"}
        onChange={onSearch}
      />
    </div>
  );
}

const PAGE = 60;

function Pager({ pipeline }: { pipeline: Answer }) {
  const { offset, items, total } = pipeline;
  const end = offset + items.length;
  const turn = (from: number) => setParams({ from: from || null, cell: null, item: null });
  return (
    <div class="pipe-pager" role="group" aria-label="Pages of items">
      <Button
        small
        icon="back"
        label="Items before"
        disabled={offset === 0}
        onClick={() => turn(Math.max(0, offset - PAGE))}
      />
      <span class="muted">
        {count(offset + 1)} – {count(end)} of {counted(total, "item")}
      </span>
      <Button small icon="right" label="Next items" disabled={end >= total} onClick={() => turn(end)} />
    </div>
  );
}

/** The items whose id, source or files contain the text. */
function fitting(pipeline: Answer, search: string): number[] {
  const searchText = search.trim().toLowerCase();
  const all = pipeline.items.map((_, index) => index);
  if (!searchText) return all;
  return all.filter((index) => {
    const { id, source, files } = pipeline.items[index];
    return [id, source, ...files].some((text) => text.toLowerCase().includes(searchText));
  });
}
