// The frame around every page: title, navigation, theme and keys.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { LiveContext, theReport, useLive } from "./api";
import { Help } from "./help";
import { Compare } from "./pages/compare";
import { Graph } from "./pages/graph";
import { Ledger } from "./pages/ledger";
import { Pipeline } from "./pages/pipeline";
import { Runs } from "./pages/runs";
import { Series } from "./pages/series";
import { Source } from "./pages/source";
import { Tensor } from "./pages/tensor";
import { Tree } from "./pages/tree";
import { go, link, type Route, type Tab, useRoute } from "./router";
import { type Theme, useTheme } from "./theme";
import type { Overview, RunId } from "./types";
import { Button, classes, Empty, Icon, Loading, Notice, Problem, StatusPill, useKeys, withCode } from "./ui";

export interface PageProps {
  run: RunId;
  params: URLSearchParams;
}

const PAGES: Record<Tab, (props: PageProps) => ComponentChildren> = {
  series: Series,
  tensor: Tensor,
  tree: Tree,
  source: Source,
  pipeline: Pipeline,
  graph: Graph,
  ledger: Ledger,
};

const NAMES: [Tab, string][] = [
  ["series", "Series"],
  ["tensor", "Tensors"],
  ["tree", "Tree"],
  ["pipeline", "Pipeline"],
  ["graph", "Graph"],
  ["ledger", "Ledger"],
];

export function App() {
  const route = useRoute();
  const [help, setHelp] = useState(false);
  useKeys({
    "?": () => setHelp(true),
    "/": () => document.querySelector<HTMLInputElement>("[data-search]")?.focus(),
  });
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        To the page
      </a>
      {shown(route, () => setHelp(true))}
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

function skip(event: Event): void {
  event.preventDefault(); // the hash is the page's address
  document.getElementById("main")?.focus();
}

function shown(route: Route, onHelp: () => void): ComponentChildren {
  const report = theReport();
  if (route.page === "run") return <RunPages key={route.run} route={route} onHelp={onHelp} />;
  if (report && route.page === "runs") {
    return <RunPages key={report.run} route={{ ...route, page: "run", run: report.run, tab: null }} onHelp={onHelp} />;
  }
  return (
    <Shell title={route.page === "compare" ? "Compare" : "Runs"} onHelp={onHelp}>
      {route.page === "runs" && <Runs params={route.params} />}
      {route.page === "compare" && <Compare run="" params={route.params} />}
      {route.page === "lost" && (
        <Empty title="There is no page at this address.">
          <a href={link.runs()}>To the list of runs</a>
        </Empty>
      )}
    </Shell>
  );
}

function RunPages({ route, onHelp }: { route: Extract<Route, { page: "run" }>; onHelp: () => void }) {
  const { error, reload, ...live } = useLive(route.run);
  const { overview } = live;
  const tabs = overview ? tabsOf(overview) : [];
  const tab = route.tab ?? tabs.find(([, , there]) => there)?.[0] ?? "ledger";
  useKeys(Object.fromEntries(tabs.map(([name], i) => [String(i + 1), () => go(link.run(route.run, name))])));
  const Page = PAGES[tab];
  return (
    <LiveContext.Provider value={live}>
      <Shell title={overview?.run.name ?? ""} run={route.run} overview={overview} tab={tab} onHelp={onHelp}>
        {overview && error && (
          <Notice kind="bad">{withCode(`${error.error} ${error.remedy}`)} What is shown was read before.</Notice>
        )}
        {overview && tab !== "ledger" && <Damage run={route.run} problems={overview.problems} />}
        {overview ? (
          <Page key={tab} run={route.run} params={route.params} />
        ) : error ? (
          <Problem error={error} retry={reload} />
        ) : (
          <Loading what="Opening the run" />
        )}
      </Shell>
    </LiveContext.Provider>
  );
}

/** Shown on every page of a damaged run: data may be missing because it cannot be read. */
function Damage({ run, problems }: { run: RunId; problems: string[] }) {
  if (problems.length === 0) return null;
  return (
    <Notice>
      A part of this run cannot be read; what is whole is shown. {problems[0]}.{" "}
      <a href={link.run(run, "ledger")}>
        {problems.length > 1 ? `All ${problems.length} problems` : "More on its ledger page"}
      </a>
    </Notice>
  );
}

/** Every tab, and whether the run has data for it. */
function tabsOf(overview: Overview): [Tab, string, boolean][] {
  const tensors = overview.names.some((name) => name.kind === "tensor");
  const series = overview.pages.series && overview.names.some((name) => name.kind !== "tensor");
  const available: Partial<Record<Tab, boolean>> = { ...overview.pages, series, tensor: tensors, ledger: true };
  return NAMES.map(([tab, text]) => [tab, text, available[tab] ?? false]);
}

interface ShellProps {
  title: string;
  run?: RunId;
  overview?: Overview | null;
  tab?: Tab;
  onHelp: () => void;
  children: ComponentChildren;
}

function Shell({ title, run, overview, tab, onHelp, children }: ShellProps) {
  const report = theReport();
  useEffect(() => {
    document.title = title ? `${title} · clew` : "clew";
  }, [title]);
  return (
    <div class="shell">
      <header class="top">
        <a class="brand" href={link.runs()} aria-label={report ? "clew" : "clew: all runs"}>
          <Icon name="thread" size={20} />
          <span>clew</span>
        </a>
        <span class="top-line" aria-hidden="true" />
        <h1 class="top-title" title={overview?.run.path}>
          {title}
        </h1>
        {overview && <StatusPill status={overview.run.status} error={overview.run.error} />}
        {report && <span class="top-report">report of {report.made}</span>}
        <span class="top-space" />
        <ThemeSwitch />
        <Button kind="quiet" icon="help" label="Keys and help (?)" onClick={onHelp} />
      </header>
      {run !== undefined && (
        <nav class="tabs" aria-label="Pages of this run">
          {(overview ? tabsOf(overview) : []).map(([name, text, there]) => (
            <a
              key={name}
              href={link.run(run, name)}
              class={classes(name === tab && "on", !there && "none")}
              aria-current={name === tab ? "page" : undefined}
            >
              {text}
            </a>
          ))}
        </nav>
      )}
      <main id="main" tabIndex={-1} class={classes("page", `page-${tab ?? title.toLowerCase()}`)}>
        {children}
      </main>
    </div>
  );
}

const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const SIGN = { auto: "auto", light: "sun", dark: "moon" } as const;

function ThemeSwitch() {
  const [theme, choose] = useTheme();
  return <Button kind="quiet" icon={SIGN[theme]} label={`Theme: ${theme}`} onClick={() => choose(NEXT[theme])} />;
}
