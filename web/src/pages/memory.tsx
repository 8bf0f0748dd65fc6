// Memory of devices and of the ranks' processes.
import type {JSX} from "preact";
import {useMemo} from "preact/hooks";
import {api} from "../api";
import {useAsked} from "../ask";
import type {Series} from "../api_types";
import {decoded, HeatLegend, HeatMap} from "../heat";
import {version} from "../live";
import {choose, chosenNumber, go, hrefOf} from "../place";
import {Await, blockOf, Card, Empty} from "../parts";
import type {PageProps} from "../shell";
import {BlockCard} from "./overview";
import {SeriesGrid} from "./system";

function DeviceSteps(props: PageProps): JSX.Element {
  const [from, to] = [chosenNumber("from"), chosenNumber("to")];
  const asked = useAsked((signal) => api.heat(props.run, {measure: "memory", bins: 1024, from, to}, signal), `memory ${props.run} ${from} ${to}`, props.page.going_on ? Math.floor(version.value / 10) : 0, 10);
  const data = useMemo(() => (asked.value ? decoded(asked.value) : null), [asked.value]);
  return (
    <Card title="Device memory, ranks × steps" aside="peak of each step">
      {(from !== undefined || to !== undefined) && (
        <div class="bar">
          <button type="button" onClick={() => choose({from: null, to: null})}>
            All steps
          </button>
        </div>
      )}
      <Await asked={asked} what="memory of every rank">
        {(heat) =>
          !data || data.bins === 0 || heat.scale.high <= 1 ? (
            <Empty title="Device memory was not measured">This run used no device whose allocator could be read, or no step is written yet.</Empty>
          ) : (
            <>
              <HeatMap data={data} order={heat.ranks.map((_, i) => i)} marked={new Set()} names={(place) => `rank ${heat.ranks[place]}`} onRange={(a, b) => choose({from: a, to: b})} onStep={(step, rank) => go(hrefOf(props.run, "step", {step, rank}))} />
              <HeatLegend heat={heat} />
            </>
          )
        }
      </Await>
    </Card>
  );
}

const ofProcesses = (series: Series): boolean => /rss_bytes|uss_bytes|memory/.test(series.name);

export function Memory(props: PageProps): JSX.Element {
  const asked = useAsked((signal) => api.samples(props.run, signal), `samples ${props.run}`, props.page.going_on ? Math.floor(version.value / 3) : 0, 10);
  const measured = blockOf(props.page.page, "Step memory") !== null;
  const ahead = blockOf(props.page.page, "Memory forecast") !== null;
  return (
    <>
      {ahead && <BlockCard page={props.page.page} title="Memory forecast" run={props.run} />}
      {measured && <BlockCard page={props.page.page} title="Step memory" run={props.run} />}
      {measured ? (
        <DeviceSteps {...props} />
      ) : (
        <Empty title="Device memory was not measured">This run used no device whose allocator could be read. Below: memory of its processes.</Empty>
      )}
      <Card title="Memory of host and processes" aside="over the run">
        <Await asked={asked} what="samples">
          {({series}) => <SeriesGrid series={series.filter(ofProcesses)} goingOn={props.page.going_on} />}
        </Await>
      </Card>
    </>
  );
}
