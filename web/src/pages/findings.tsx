// Every finding with what it rests on: figures, the steps themselves, and how sure it is.
import type {JSX} from "preact";
import {useEffect, useMemo} from "preact/hooks";
import {api} from "../api";
import {useAsked} from "../ask";
import type {Finding, Findings, Heat} from "../api_types";
import {Distribution} from "../charts";
import {decoded, HeatLegend, HeatMap, valueOf} from "../heat";
import {version} from "../live";
import {choose, chosen, go, hrefOf} from "../place";
import {Await, Badge, Card, Empty} from "../parts";
import type {PageProps} from "../shell";
import {VerdictCard} from "./overview";

const OTHERS = 12; // ranks beside the culprits

// The measure that shows what the finding is about.
function measureOf(finding: Finding): string {
  if (/^INPUT|^H2D/.test(finding.kind)) return "input";
  if (/MEMORY/.test(finding.kind) && !/HOST/.test(finding.kind)) return "memory";
  return "own";
}

function Steps(props: {heat: Heat; finding: Finding; run: string}): JSX.Element | null {
  const {heat, finding} = props;
  const data = useMemo(() => decoded(heat), [heat]);
  const guilty = useMemo(() => new Set(finding.ranks), [finding]);
  if (data.bins < 2 || (heat.measure === "memory" && heat.scale.high <= 1)) return null;
  const own = heat.ranks.map((_, i) => i).filter((i) => guilty.has(heat.ranks[i] ?? -1));
  const others = heat.ranks.map((_, i) => i).filter((i) => !guilty.has(heat.ranks[i] ?? -1));
  const values = (places: number[]): number[] =>
    places.flatMap((place) => {
      const found: number[] = [];
      for (let bin = 0; bin < data.bins; bin++) {
        const value = valueOf(heat, data.levels[place * data.bins + bin] ?? 0);
        if (value !== null) found.push(value);
      }
      return found;
    });
  const order = [...own, ...others.slice(0, Math.max(2, OTHERS - own.length))];
  const ratio = heat.measure === "own";
  return (
    <Card title="The steps themselves" aside={ratio ? "own time of each rank over the ranks' median in that step" : "share of each step"}>
      <HeatMap data={data} order={order} marked={guilty} names={(place) => `rank ${heat.ranks[place]}`} most={220} onStep={(step, rank) => go(hrefOf(props.run, "step", {step, rank}))} onRange={(from, to) => go(hrefOf(props.run, "ranks", {from, to}))} />
      {order.length < heat.ranks.length && <p class="soft">The culprits and {order.length - own.length} of {others.length} other ranks.</p>}
      <HeatLegend heat={heat} />
      {own.length > 0 && others.length > 0 && (
        <>
          <h3>How they are spread</h3>
          <p class="legend">
            <span>
              <i class="own" />
              {finding.ranks.length === 1 ? `rank ${finding.ranks[0]}` : "culprits"}
            </span>
            <span>
              <i class="others" />
              others
            </span>
          </p>
          <Distribution own={values(own)} others={values(others)} low={ratio ? 0.5 : 0} high={ratio ? 3 : heat.scale.high} text={(v) => (ratio ? `${v.toFixed(2)} ×` : heat.measure === "memory" ? `${(v / 2 ** 30).toFixed(1)} GiB` : `${Math.round(v * 100)} %`)} />
        </>
      )}
    </Card>
  );
}

function Detail(props: {run: string; item: Findings["findings"][number]; goingOn: boolean}): JSX.Element {
  const {finding, words} = props.item;
  const measure = measureOf(finding);
  const heat = useAsked((signal) => api.heat(props.run, {measure, bins: 480}, signal), `evidence ${props.run} ${measure}`, props.goingOn ? Math.floor(version.value / 10) : 0, 10);
  const from = finding.steps?.first ?? null;
  return (
    <div class="detail">
      <VerdictCard verdict={words} />
      {heat.value && <Steps heat={heat.value} finding={finding} run={props.run} />}
      <Card title="How sure" aside="what speaks against it is in its page">
        <dl class="pairs">
          <div>
            <dt>Confidence</dt>
            <dd>{finding.confidence ? `${Math.round(finding.confidence * 100)} %` : "–"}</dd>
          </div>
          <div>
            <dt>Ranks × steps seen</dt>
            <dd>{finding.coverage ? `${Math.round(finding.coverage * 100)} %` : "–"}</dd>
          </div>
          {from !== null && (
            <div>
              <dt>First seen</dt>
              <dd>
                <a href={hrefOf(props.run, "step", {step: from})}>step {from}</a>
              </dd>
            </div>
          )}
          {words.explain && (
            <div>
              <dt>Formula, false alarms, what to do</dt>
              <dd>
                <code>{words.explain}</code>
              </dd>
            </div>
          )}
        </dl>
      </Card>
    </div>
  );
}

export function FindingsPage(props: PageProps): JSX.Element {
  const asked = useAsked((signal) => api.findings(props.run, signal), `findings ${props.run}`, version.value);
  const list = asked.value?.findings ?? [];
  const at = Math.max(0, list.findIndex((item) => item.finding.id === chosen("id")));
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (/^(INPUT|SELECT|TEXTAREA)$/.test((event.target as HTMLElement).tagName)) return;
      const next = event.key === "j" ? at + 1 : event.key === "k" ? at - 1 : -1;
      const item = list[next];
      if (item) choose({id: item.finding.id});
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  return (
    <Await asked={asked} what="the findings">
      {({findings}) => {
        const item = findings[at];
        if (!item) return <Empty title="Nothing was found">{props.page.page.verdict.headline}</Empty>;
        return (
          <div class="two">
            <nav class="card list" aria-label="Findings">
              {findings.map(({finding, words}, i) => (
                <button key={finding.id} type="button" class={finding.severity} aria-current={i === at ? "true" : undefined} onClick={() => choose({id: finding.id})}>
                  <Badge name={words.name} severity={finding.severity} />
                  <span>{words.headline}</span>
                  {words.cost && <small>costs {words.cost}</small>}
                </button>
              ))}
            </nav>
            <Detail run={props.run} item={item} goingOn={props.page.going_on} />
          </div>
        );
      }}
    </Await>
  );
}
