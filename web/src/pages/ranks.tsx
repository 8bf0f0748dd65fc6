// Every rank in every step: which ones are off, since when, in what.
import type {JSX} from "preact";
import {useMemo} from "preact/hooks";
import {api} from "../api";
import {useAsked} from "../ask";
import type {PageModel, Ranks} from "../api_types";
import {decoded, HeatLegend, HeatMap} from "../heat";
import {version} from "../live";
import {choose, chosen, chosenNumber, go, hrefOf} from "../place";
import {Await, blockOf, Card, Empty, Table} from "../parts";
import type {PageProps} from "../shell";

const MEASURES: [string, string][] = [
  ["own", "own time"],
  ["wait", "waiting"],
  ["input", "input"],
  ["memory", "memory"],
];
const ORDERS: [string, string][] = [
  ["rank", "by rank"],
  ["node", "by node"],
  ["slow", "slowest first"],
  ["delay", "delays others most"],
];
const NEWEST = 512; // steps of a run that goes on

export function culprits(page: PageModel): Set<number> {
  const marked = new Set<number>();
  const table = blockOf(page, "Ranks")?.elements.find((element) => element.kind === "table");
  if (table?.kind === "table") for (const row of table.rows) if (row.mark === "culprit") marked.add(Number(row.cells[0]));
  return marked;
}

function orderOf(ranks: number[], told: Ranks | null, by: string): number[] {
  const places = ranks.map((_, i) => i);
  const figures = new Map(told?.ranks.map((rank) => [rank.rank, rank]));
  const figure = (place: number) => figures.get(ranks[place] ?? -1);
  if (by === "node") places.sort((a, b) => (figure(a)?.node ?? 0) - (figure(b)?.node ?? 0) || a - b);
  if (by === "slow") places.sort((a, b) => (figure(b)?.own_ms ?? 0) - (figure(a)?.own_ms ?? 0));
  if (by === "delay") places.sort((a, b) => (figure(b)?.caused_wait_ms ?? 0) - (figure(a)?.caused_wait_ms ?? 0));
  return places;
}

function Choice(props: {name: string; label: string; of: [string, string][]; now: string}): JSX.Element {
  return (
    <fieldset class="choice">
      <legend class="unseen">{props.label}</legend>
      {props.of.map(([value, text], i) => (
        <label key={value} class={props.now === value ? "on" : ""}>
          <input type="radio" name={props.name} checked={props.now === value} onChange={() => choose({[props.name]: i === 0 ? null : value})} />
          {text}
        </label>
      ))}
    </fieldset>
  );
}

export function RanksPage(props: PageProps): JSX.Element {
  const measure = chosen("measure") ?? "own";
  const order = chosen("order") ?? "rank";
  const [from, to] = [chosenNumber("from"), chosenNumber("to")];
  const goingOn = props.page.going_on;
  const steps = Number(/([\d,]+) steps?$/.exec(props.page.page.run.find((p) => / steps?$/.test(p)) ?? "")?.[1]?.replaceAll(",", "") ?? 0);
  const follows = goingOn && from === undefined && to === undefined && chosen("all") === null;
  const bins = Math.min(2048, Math.max(256, Math.round(innerWidth * Math.min(2, devicePixelRatio || 1))));
  const heat = useAsked(
    (signal) => api.heat(props.run, {measure, bins, from: follows ? Math.max(0, steps - NEWEST) : from, to}, signal),
    `heat ${props.run} ${measure} ${follows ? "newest" : `${from} ${to}`}`,
    goingOn ? version.value : 0,
    follows ? 2 : 10,
  );
  const told = useAsked((signal) => api.ranks(props.run, signal), `ranks ${props.run}`, version.value, 5);
  const data = useMemo(() => (heat.value ? decoded(heat.value) : null), [heat.value]);
  const places = useMemo(() => orderOf(heat.value?.ranks ?? [], told.value, order), [heat.value, told.value, order]);
  const marked = useMemo(() => culprits(props.page.page), [props.page]);
  const hosts = useMemo(() => new Map(told.value?.ranks.map((rank) => [rank.rank, rank.hostname])), [told.value]);
  const many = new Set(hosts.values()).size > 1;
  const block = blockOf(props.page.page, "Ranks");
  const table = block?.elements.find((element) => element.kind === "table");
  const zoomed = from !== undefined || to !== undefined;
  return (
    <>
      <Card title="Ranks × steps" aside="drag: look closer; click: that step">
        <div class="bar">
          <Choice name="measure" label="What is shown" of={MEASURES} now={measure} />
          <Choice name="order" label="Order of the ranks" of={many ? ORDERS : ORDERS.filter(([name]) => name !== "node")} now={order} />
          {zoomed && (
            <button type="button" onClick={() => choose({from: null, to: null})}>
              All steps
            </button>
          )}
          {goingOn && !zoomed && (
            <button type="button" onClick={() => choose({all: follows ? 1 : null})}>
              {follows ? "From the beginning" : "Newest steps"}
            </button>
          )}
        </div>
        <Await asked={heat} what="the steps of every rank">
          {(value) =>
            !data || data.bins === 0 ? (
              <Empty title="No step yet">The first completed steps appear here.</Empty>
            ) : measure === "memory" && value.scale.high <= 1 ? (
              <Empty title="Device memory was not measured">This run used no device whose allocator could be read.</Empty>
            ) : (
              <>
                <HeatMap
                  data={data}
                  order={places}
                  marked={marked}
                  names={(place) => {
                    const rank = value.ranks[place] ?? 0;
                    return many ? `rank ${rank} on ${hosts.get(rank) ?? "?"}` : `rank ${rank}`;
                  }}
                  onRange={(a, b) => choose({from: a, to: b})}
                  onStep={(step, rank) => go(hrefOf(props.run, "step", {step, rank}))}
                />
                <HeatLegend heat={value} />
              </>
            )
          }
        </Await>
      </Card>
      {block && table?.kind === "table" && (
        <Card title="Each rank" aside={block.aside}>
          <Table table={table} label="Ranks" sorts />
          {block.elements.map((element, i) => (element.kind === "lines" ? <p key={i} class="soft">{element.items.join(" ")}</p> : null))}
        </Card>
      )}
    </>
  );
}
