// Two runs side by side: better, same, worse, or not to be told.
import type {JSX} from "preact";
import {api} from "../api";
import {useAsked} from "../ask";
import {go, hrefOf} from "../place";
import {Await, Card, Empty, Table} from "../parts";

const TONES: Record<string, string> = {regression: "crit", improvement: "info", same: "info", inconclusive: "warn"};

function List(props: {title: string; items: string[]; tone: string}): JSX.Element | null {
  if (props.items.length === 0) return null;
  return (
    <Card title={props.title}>
      <ul class={`plain-list ${props.tone}`}>
        {props.items.map((item) => (
          <li key={item}>{item}</li>
        ))}
      </ul>
    </Card>
  );
}

export function Compare(props: {a: string; b: string}): JSX.Element {
  if (!props.a || !props.b)
    return (
      <Empty title="Nothing to compare">
        Choose two runs in the <a href="#/">history</a>.
      </Empty>
    );
  return <Compared {...props} />;
}

function Compared(props: {a: string; b: string}): JSX.Element {
  const asked = useAsked((signal) => api.compare(props.a, props.b, signal), `compare ${props.a} ${props.b}`);
  const turned = `#/compare?a=${encodeURIComponent(props.b)}&b=${encodeURIComponent(props.a)}`;
  return (
    <Await asked={asked} what="both runs">
      {({comparison: c, table}) => (
        <>
          <div class="run-head">
            <h1>Compare</h1>
            <button type="button" onClick={() => go(turned)}>
              Swap
            </button>
            <p class="phrases soft">
              <span>
                A <a href={hrefOf(props.a)}>{c.a.name}</a>
              </span>
              <span>
                B <a href={hrefOf(props.b)}>{c.b.name}</a>
              </span>
            </p>
          </div>
          <section class={`card verdict ${TONES[c.outcome] ?? "info"}`}>
            <span class={`badge ${TONES[c.outcome] ?? "info"}`}>{c.outcome.toUpperCase()}</span>
            <h2 class="headline">{c.reason}</h2>
            <p class="soft">
              <code>
                stepscope compare {props.a} {props.b}
              </code>
            </p>
          </section>
          <Card title="Figures" aside="B against A; noise: what the steps of both runs vary by">
            <Table table={table} label="Figures of both runs" />
          </Card>
          <List title="New findings in B" items={c.opened} tone="crit" />
          <List title="Gone in B" items={c.closed} tone="info" />
          <List title="Caveats" items={c.warnings} tone="warn" />
        </>
      )}
    </Await>
  );
}
