// The frame around every page: which run, how fresh, where to go, keys and theme.
import {effect, signal} from "@preact/signals";
import type {ComponentType, JSX} from "preact";
import {useEffect} from "preact/hooks";
import {api} from "./api";
import {useAsked} from "./ask";
import type {Page} from "./api_types";
import {heardAt, link, state, version} from "./live";
import * as live from "./live";
import {chosen, go, hrefOf, PAGES, type PageName, place} from "./place";
import {Await} from "./parts";
import {Collectives} from "./pages/collectives";
import {Compare} from "./pages/compare";
import {FindingsPage} from "./pages/findings";
import {Memory} from "./pages/memory";
import {Overview} from "./pages/overview";
import {RanksPage} from "./pages/ranks";
import {Runs} from "./pages/runs";
import {StepPage} from "./pages/step";
import {System} from "./pages/system";

export interface PageProps {
  run: string;
  page: Page;
}

const TITLES: Record<PageName, string> = {
  overview: "Overview",
  findings: "Findings",
  ranks: "Ranks",
  step: "Step",
  memory: "Memory",
  collectives: "Collectives",
  system: "System",
};
const DRAWN: Record<PageName, ComponentType<PageProps>> = {
  overview: Overview,
  findings: FindingsPage,
  ranks: RanksPage,
  step: StepPage,
  memory: Memory,
  collectives: Collectives,
  system: System,
};
// g, then a letter.
const GO: Record<string, PageName> = {o: "overview", f: "findings", r: "ranks", s: "step", m: "memory", c: "collectives", y: "system"};

const helpOpen = signal(false);
const theme = signal(localStorage.getItem("stepscope-theme") ?? "");
effect(() => {
  if (theme.value) document.documentElement.dataset.theme = theme.value;
  else delete document.documentElement.dataset.theme;
});

function turnTheme(): void {
  const dark = theme.value ? theme.value === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  theme.value = dark ? "light" : "dark";
  localStorage.setItem("stepscope-theme", theme.value);
}

let awaitsPage = 0; // g was pressed, at this time
function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
  const name = place.value.run;
  if (event.key === "Escape") helpOpen.value = false;
  else if (event.key === "?") helpOpen.value = !helpOpen.value;
  else if (event.key === "T") turnTheme();
  else if (event.key === "g") awaitsPage = Date.now();
  else if (Date.now() - awaitsPage < 1500) {
    awaitsPage = 0;
    const page = GO[event.key];
    if (event.key === "h") go("#/");
    else if (page && name) go(hrefOf(name, page));
  }
}

function Help(): JSX.Element | null {
  if (!helpOpen.value) return null;
  const keys: [string, string][] = [
    ["g h", "history of runs"],
    ...Object.entries(GO).map(([key, page]): [string, string] => [`g ${key}`, TITLES[page].toLowerCase()]),
    ["j k", "next and previous finding"],
    ["[ ]", "previous and next slow step"],
    ["← → ↑ ↓", "move in the heat map; Enter opens the step"],
    ["T", "light or dark"],
    ["Esc", "close this"],
  ];
  return (
    <div class="veil" onClick={() => (helpOpen.value = false)}>
      <div class="card help" role="dialog" aria-modal="true" aria-label="Keys">
        <h2>Keys</h2>
        <dl>
          {keys.map(([key, meaning]) => (
            <div key={key}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{meaning}</dd>
            </div>
          ))}
        </dl>
        <button type="button" onClick={() => (helpOpen.value = false)}>
          Close
        </button>
      </div>
    </div>
  );
}

function Freshness(props: {page: Page}): JSX.Element {
  const status = state.value?.status ?? props.page.page.run.find((p) => /^(running|completed|crashed|hung|interrupted|unfinished)/.test(p)) ?? "";
  if (link.value === "live") return <span class="chip live">live · step {(state.value?.steps ?? 0).toLocaleString("en-US")}</span>;
  if (link.value === "stale")
    return <span class="chip stale">not heard from since {new Date(heardAt.value).toLocaleTimeString()}</span>;
  if (link.value === "opening") return <span class="chip">connecting …</span>;
  return <span class={`chip ${props.page.page.ended_badly ? "bad" : ""}`}>{status || "ended"}</span>;
}

function RunView(props: {name: string; page: PageName}): JSX.Element {
  const asked = useAsked((signal) => api.page(props.name, signal), `page ${props.name}`, version.value);
  const goingOn = asked.value?.going_on ?? false;
  useEffect(() => {
    if (goingOn && link.value === "none") live.follow(props.name);
  }, [goingOn, props.name]);
  useEffect(() => () => live.leave(), [props.name]);
  useEffect(() => {
    document.title = `${asked.value ? `${asked.value.page.verdict.name} · ` : ""}${props.name} · stepscope`;
  }, [asked.value, props.name]);
  const Drawn = DRAWN[props.page];
  return (
    <Await asked={asked} what={props.name}>
      {(page) => (
        <>
          <div class="run-head">
            <h1>{page.page.run_name || props.name}</h1>
            <Freshness page={page} />
            <p class="phrases soft">
              {page.page.run.map((phrase) => (
                <span key={phrase}>{phrase}</span>
              ))}
            </p>
          </div>
          {page.note && <p class="note">{page.note}</p>}
          <Drawn run={props.name} page={page} />
        </>
      )}
    </Await>
  );
}

export function Shell(): JSX.Element {
  useEffect(() => {
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const {view, run, page} = place.value;
  useEffect(() => {
    if (view !== "run") document.title = view === "compare" ? "Compare · stepscope" : "Runs · stepscope";
  }, [view]);
  return (
    <>
      <header class="top">
        <a class="brand" href="#/">
          <img src="icon.svg" alt="" width="20" height="20" />
          stepscope
        </a>
        <nav aria-label="Pages">
          <a href="#/" aria-current={view === "runs" ? "page" : undefined}>
            Runs
          </a>
          {view === "run" &&
            PAGES.map((name) => (
              <a key={name} href={hrefOf(run, name)} aria-current={page === name ? "page" : undefined}>
                {TITLES[name]}
              </a>
            ))}
        </nav>
        <div class="tools">
          <button type="button" onClick={turnTheme} aria-label="Light or dark">
            ◐
          </button>
          <button type="button" onClick={() => (helpOpen.value = true)} aria-label="Keys">
            ?
          </button>
        </div>
      </header>
      <main key={`${view} ${run}`}>{view === "runs" ? <Runs /> : view === "compare" ? <Compare a={chosen("a") ?? ""} b={chosen("b") ?? ""} /> : <RunView name={run} page={page} />}</main>
      <Help />
    </>
  );
}

