// Communication: per group and operation, and how much of the step it takes.
import type {JSX} from "preact";
import {useMemo} from "preact/hooks";
import {api} from "../api";
import {useAsked} from "../ask";
import {decoded, HeatLegend, HeatMap} from "../heat";
import {version} from "../live";
import {go, hrefOf} from "../place";
import {Await, blockOf, Card, Empty} from "../parts";
import type {PageProps} from "../shell";
import {BlockCard} from "./overview";

// Two bars a group: waiting for the last rank, then the transfer itself.
function WaitAndTransfer(props: PageProps): JSX.Element {
  const asked = useAsked((signal) => api.collectives(props.run, signal), `collectives ${props.run}`, version.value, 5);
  return (
    <Await asked={asked} what="collectives">
      {({collectives}) => {
        const timed = collectives.filter((c) => c.transfer_ms !== null || c.wait_ms !== null);
        if (timed.length === 0) return <p class="soft">No collective of this run was timed one by one; the ledger has what ranks waited in all.</p>;
        const most = Math.max(...timed.map((c) => (c.transfer_ms ?? 0) + (c.wait_ms ?? 0)), 1e-9);
        return (
          <>
            <p class="legend">
              <span>
                <i class="c-straggler_wait" />
                waiting for the last rank
              </span>
              <span>
                <i class="c-comm_transfer" />
                transfer
              </span>
            </p>
            <ol class="waterfall two-columns">
              {timed.map((c, i) => (
                <li key={i}>
                  <span class="name">
                    {c.op} <small class="soft">{c.group}</small>
                  </span>
                  <span class="track">
                    <i class="c-straggler_wait" style={{width: `${((c.wait_ms ?? 0) / most) * 100}%`}} />
                    <i class="c-comm_transfer" style={{width: `${((c.transfer_ms ?? 0) / most) * 100}%`}} />
                  </span>
                </li>
              ))}
            </ol>
          </>
        );
      }}
    </Await>
  );
}

export function Collectives(props: PageProps): JSX.Element {
  const heat = useAsked((signal) => api.heat(props.run, {measure: "wait", bins: 1024}, signal), `wait ${props.run}`, props.page.going_on ? Math.floor(version.value / 10) : 0, 10);
  const data = useMemo(() => (heat.value ? decoded(heat.value) : null), [heat.value]);
  if (!blockOf(props.page.page, "Collectives")) return <Empty title="No collective was seen">This run has one rank, or its ranks do not talk through torch.distributed.</Empty>;
  return (
    <>
      <BlockCard page={props.page.page} title="Collectives" run={props.run} />
      <Card title="Waiting and transfer" aside="per step">
        <WaitAndTransfer {...props} />
      </Card>
      <Card title="Who waits, step by step" aside="share of the step that a rank waits for others">
        <Await asked={heat} what="waiting of every rank">
          {(value) =>
            !data || data.bins === 0 ? (
              <Empty title="No step is written yet" />
            ) : (
              <>
                <HeatMap data={data} order={value.ranks.map((_, i) => i)} marked={new Set()} names={(place) => `rank ${value.ranks[place]}`} onStep={(step, rank) => go(hrefOf(props.run, "step", {step, rank}))} onRange={(from, to) => go(hrefOf(props.run, "ranks", {from, to, measure: "wait"}))} />
                <HeatLegend heat={value} />
              </>
            )
          }
        </Await>
      </Card>
    </>
  );
}
