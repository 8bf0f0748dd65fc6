// Host, processes and devices: what was sampled from outside.
import type {JSX} from "preact";
import {api} from "../api";
import {useAsked} from "../ask";
import type {Series} from "../api_types";
import {version} from "../live";
import {Await, Card, Empty, elementOf, SectionCards, Sparkline} from "../parts";
import type {PageProps} from "../shell";

const SCOPES: Record<string, string> = {host: "Host", cgroup: "Control group", rank: "Rank", worker: "Loader workers of rank", device: "GPU"};
const SHOWN = 96;

const nameOf = (series: Series): string => {
  const scope = SCOPES[series.scope] ?? series.scope;
  return series.idx >= 0 ? `${scope} ${series.idx}` : scope;
};

export function SeriesGrid(props: {series: Series[]; goingOn: boolean}): JSX.Element {
  if (props.series.length === 0)
    return <Empty title={props.goingOn ? "Not written yet" : "Nothing was sampled"}>{props.goingOn ? "Another process observes this run; its samples are in the run file when the run ends." : "The run was too short, or its processes could not be read."}</Empty>;
  const shown = props.series.slice(0, SHOWN);
  return (
    <>
      <div class="series">
        {shown.map((series) => (
          <figure key={`${series.scope} ${series.idx} ${series.name}`}>
            <figcaption>
              <b>{nameOf(series)}</b> {series.label}
            </figcaption>
            <Sparkline values={series.values} zero wide label={`${nameOf(series)} ${series.label}, largest ${series.largest}`} />
            <p class="soft">
              now {series.newest} <span>most {series.largest}</span>
            </p>
          </figure>
        ))}
      </div>
      {shown.length < props.series.length && (
        <p class="soft">
          {shown.length} of {props.series.length}; all are in run.db (<code>stepscope export --table samples</code>).
        </p>
      )}
    </>
  );
}

export function System(props: PageProps): JSX.Element {
  const cards = elementOf(props.page.page, "cards");
  const asked = useAsked((signal) => api.samples(props.run, signal), `samples ${props.run}`, props.page.going_on ? Math.floor(version.value / 3) : 0, 10);
  return (
    <>
      {cards && (
        <Card title="System and processes">
          <SectionCards cards={cards.cards.filter((card) => card.title === "System" || card.title === "Process")} />
        </Card>
      )}
      <Card title="Over the run" aside="each with its own scale from zero">
        <Await asked={asked} what="samples">
          {({series}) => <SeriesGrid series={series} goingOn={props.page.going_on} />}
        </Await>
      </Card>
    </>
  );
}
