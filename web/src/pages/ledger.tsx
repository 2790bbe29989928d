// What was not recorded and why, problems of the run, and its metadata.

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { useOverview } from "../api";
import { bytes, count, counted, duration, when } from "../format";
import { setParams } from "../router";
import "../styles/ledger.css";
import type { Overview, RunId } from "../types";
import { Empty, Notice, Search, withCode } from "../ui";
import { flat } from "./ledger/flat";

export function Ledger({ params }: { run: RunId; params: URLSearchParams }) {
  const overview = useOverview();
  const search = params.get("search") ?? "";
  const meta = useMemo(() => (overview ? flat(overview.meta) : []), [overview]);
  if (!overview) return null;
  const fits = (...texts: string[]) => words(search).every((word) => texts.join("\n").toLowerCase().includes(word));
  const ledger = overview.ledger.filter((line) => fits(line.kind, line.subject, line.text));
  const problems = overview.problems.filter((text) => fits(text));
  const matches = meta.filter(([key, text]) => fits(key, text));
  const nothing = search !== "" && ledger.length + problems.length + matches.length === 0;
  return (
    <div class="ledger">
      <Summary overview={overview} />
      <div class="ledger-search">
        <Search value={search} onChange={(value) => setParams({ search: value })} label="Search ledger and metadata" />
      </div>
      {nothing && <Empty title="Nothing fits the search." />}
      {problems.map((text) => (
        <Notice key={text}>{withCode(text)}</Notice>
      ))}
      {(ledger.length > 0 || search === "") && (
        <Section title="Ledger" note={counted(ledger.length, "entry", "entries")}>
          {overview.ledger.length === 0 ? (
            <p class="ledger-none muted">
              {overview.problems.length === 0
                ? "Everything that was asked for was recorded."
                : "No entry can be read: what is said above may have held some."}
            </p>
          ) : (
            <table class="table ledger-table">
              <thead>
                <tr>
                  <th class="ledger-kind">Kind</th>
                  <th class="ledger-subject">What</th>
                  <th>Why</th>
                </tr>
              </thead>
              <tbody>
                {ledger.map((line, i) => (
                  <tr key={i}>
                    <td class="ledger-kind">
                      <span class="chip">{line.kind}</span>
                    </td>
                    <td class="mono ledger-subject">{withCode(line.subject)}</td>
                    <td>{withCode(line.text)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </Section>
      )}
      {matches.length > 0 && (
        <Section title="Metadata" note={counted(matches.length, "value")}>
          <table class="table ledger-table">
            <tbody>
              {matches.map(([key, text]) => (
                <tr key={key}>
                  <th scope="row" class="mono">
                    {key}
                  </th>
                  <td class="mono">{text}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Section>
      )}
    </div>
  );
}

function words(search: string): string[] {
  return search.toLowerCase().split(/\s+/).filter(Boolean);
}

function Section({ title, note, children }: { title: string; note: string; children: ComponentChildren }) {
  return (
    <section class="panel">
      <header class="ledger-head">
        <h2>{title}</h2>
        <span class="faint">{note}</span>
      </header>
      {children}
    </section>
  );
}

function Summary({ overview: { run, counts } }: { overview: Overview }) {
  const facts: [string, string][] = [
    ["Started", when(run.started)],
    [run.status === "running" ? "So far" : "Took", duration(run.duration)],
    ["Size", bytes(run.size)],
    ["Changes", count(counts.changes)],
    ["Calls", count(counts.calls)],
    ["Names", count(counts.names)],
    ["Threads", count(counts.threads)],
    ["Ranks", count(counts.ranks)],
  ];
  return (
    <section class="panel run-summary" aria-label="The run">
      <dl>
        {facts.map(([name, text]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      {run.error && <Notice kind="bad">{run.error}</Notice>}
      <p class="mono faint run-summary-path">{run.path}</p>
    </section>
  );
}
