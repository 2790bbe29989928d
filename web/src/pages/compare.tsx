// The comparison of two runs: whether they are equal, where they first differ, and where they agree.

import { useAnswer } from "../api";
import type { Diff } from "../difftypes";
import { count } from "../format";
import type { RunId } from "../types";
import { classes, Empty, Icon, Loading, Problem, withCode } from "../ui";
import { Places, Steps } from "./compare/AgreementView";
import { DifferenceView } from "./compare/DifferenceView";
import { Lists, PAGE } from "./compare/Lists";
import { RunForm } from "./compare/RunForm";
import { defaultsText, headlineOf, num, strictness } from "./compare/messages";
import { sentence } from "./sentence";
import "../styles/tree.css";
import "../styles/compare.css";

const ASKED = ["a", "b", "reference", "rtol", "atol", "ulp", "only", "ignore", "map", "common", "offset"];

export function Compare({ params }: { run: RunId; params: URLSearchParams }) {
  const [a, b] = [params.get("a"), params.get("b")];
  return (
    <div class="compare">
      <RunForm params={params} />
      {a && b ? (
        <Compared params={params} a={a} b={b} />
      ) : (
        <Empty title="Choose two runs.">
          A is what B is measured against. With a second run of A as reference, differences are told as multiples of the
          noise of each place.
        </Empty>
      )}
    </div>
  );
}

function Compared({ params, a, b }: { params: URLSearchParams; a: RunId; b: RunId }) {
  const asked = Object.fromEntries(ASKED.map((key) => [key, params.get(key)]));
  const { data, error, reload, stale } = useAnswer<Diff>("/api/diff", { ...asked, limit: PAGE });
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading what="Comparing" />;
  return (
    <div class={classes("compare-body", stale && "stale")} aria-busy={stale}>
      <Headline diff={data} />
      <div class="compare-columns">
        {data.first && (
          <section class="panel">
            <h2>The first difference</h2>
            <DifferenceView one={data.first} a={a} b={b} />
          </section>
        )}
        {data.tree.places.children.length > 0 && (
          <section class="panel">
            <h2>Where they agree</h2>
            <Steps root={data.tree.steps} />
            <h3>By place</h3>
            <Places key={`${a} ${b} ${data.summary.compared}`} root={data.tree.places} />
          </section>
        )}
      </div>
      <Lists diff={data} a={a} b={b} />
    </div>
  );
}

function Headline({ diff }: { diff: Diff }) {
  const { tone, title, text } = headlineOf(diff);
  const { summary } = diff;
  const facts: [string, string][] = [
    ["compared", count(summary.compared)],
    ["identical", count(summary.identical)],
    ["within tolerance", summary.within ? `${count(summary.within)} (at most ${num(summary.within_worst, 2)})` : "0"],
    ["differ", count(summary.differ)],
  ];
  if (summary.by_hash) facts.push(["by hash only", count(summary.by_hash)]);
  if (summary.by_summary) facts.push(["by summary only", count(summary.by_summary)]);
  const renamed = Object.entries(diff.renamed).map(([from, to]) => `${from} is taken for ${to}`);
  const notes = [defaultsText(diff.settings), ...diff.notes, ...renamed].filter((note) => note !== null);
  return (
    <section class={`compare-headline ${tone}`} aria-live="polite">
      <div class="compare-title">
        <Icon name={tone === "good" ? "check" : "warn"} size={20} />
        <div>
          <h2>{title}</h2>
          <p>
            {text} <span class="muted">Compared by {strictness(diff.settings)}.</span>
          </p>
        </div>
      </div>
      <dl class="compare-facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {notes.length > 0 && (
        <ul class="compare-notes">
          {notes.map((note, index) => (
            <li key={index}>{withCode(sentence(note))}</li>
          ))}
        </ul>
      )}
    </section>
  );
}
