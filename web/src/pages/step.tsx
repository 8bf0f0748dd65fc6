// One step over all ranks: what each did, who waited for whom.
import type {JSX} from "preact";
import {useEffect, useMemo} from "preact/hooks";
import {api} from "../api";
import {useAsked} from "../ask";
import type {Anatomy, StepMeeting, StepRank} from "../api_types";
import {middleOf, seriesOf, StepPlot} from "../charts";
import {choose, chosenNumber} from "../place";
import {Await, Card, Empty, elementOf, grouped, inMs} from "../parts";
import type {PageProps} from "../shell";

const AROUND = 400; // steps on both sides
const ROWS = 128;
const SLOW = 1.25; // of the middle

// The order in which a step goes through them; stalls come after the work that they cut off.
const ORDER = ["epoch_start", "input_wait", "h2d", "forward", "backward", "straggler_wait", "comm_transfer", "unresolved", "optimizer"];
const placeOf = (category: string): number => {
  const at = ORDER.indexOf(category);
  return at < 0 ? ORDER.length : at;
};

// The collectives of the step as a band through all rows, and this rank's part of the critical path as a line below.
function Meeting(props: {meeting: StepMeeting; rank: StepRank; longest: number}): JSX.Element {
  const {meeting, rank, longest} = props;
  const at = (ms: number): string => `${(ms / longest) * 100}%`;
  const path: [number, number][] = [];
  if (rank.rank === meeting.last_rank) path.push([0, meeting.end_ms]);
  if (rank.rank === meeting.tail_rank) path.push([meeting.end_ms, rank.wall_ms ?? meeting.end_ms]);
  return (
    <>
      <i class="band" style={{left: at(meeting.first_ms), width: at(meeting.last_ms - meeting.first_ms)}} />
      {path.map(([from, to]) => (
        <i key={from} class="path" style={{left: at(from), width: at(Math.max(0, to - from))}} />
      ))}
    </>
  );
}

function Row(props: {rank: StepRank; longest: number; meeting: StepMeeting | null; last: boolean; chosen: boolean; labels: Map<string, string>}): JSX.Element {
  const {rank, meeting, longest} = props;
  const parts = [...rank.parts].sort((a, b) => placeOf(a.category) - placeOf(b.category));
  const name = (category: string): string => props.labels.get(category) ?? category.replaceAll("_", " ");
  return (
    <tr class={`${props.last ? "culprit" : ""} ${props.chosen ? "chosen" : ""}`}>
      <th scope="row">
        {rank.rank}
        {props.last && <small>last to arrive</small>}
      </th>
      <td class="anatomy">
        <div class="lane">
          <div class="ledger-bar tall" role="img" aria-label={parts.map((p) => `${name(p.category)} ${inMs(p.ms)}`).join(", ")}>
            {parts.map((part) => (
              <i key={part.category} class={`c-${part.category}`} style={{width: `${((part.ms ?? 0) / props.longest) * 100}%`}} title={`${name(part.category)} ${inMs(part.ms)}`} />
            ))}
          </div>
          {meeting && <Meeting meeting={meeting} rank={rank} longest={longest} />}
        </div>
      </td>
      <td>{inMs(rank.own_ms)}</td>
      <td>{inMs(rank.wait_ms)}</td>
      <td>{rank.waited_for >= 0 ? `rank ${rank.waited_for}` : "–"}</td>
      <td>{rank.caused_ms ? inMs(rank.caused_ms) : "–"}</td>
    </tr>
  );
}

function MeetingLines(props: {meeting: StepMeeting}): JSX.Element {
  const m = props.meeting;
  const rest = m.tail_rank === m.last_rank ? "and itself to the end of the step" : `then rank ${m.tail_rank} to the end of the step`;
  return (
    <p class="legend">
      <span>
        <i class="band-key" />
        collectives, drawn as one: the first rank arrives after {inMs(m.first_ms)}, rank {m.last_rank} last after {inMs(m.last_ms)}
      </span>
      <span>
        <i class="path-key" />
        critical path: rank {m.last_rank} until the ranks go on after {inMs(m.end_ms)}, {rest}
      </span>
    </p>
  );
}

function Legend(props: {step: Anatomy; labels: Map<string, string>}): JSX.Element {
  const seen = [...new Set(props.step.ranks.flatMap((rank) => rank.parts.map((part) => part.category)))].sort((a, b) => placeOf(a) - placeOf(b));
  return (
    <p class="legend">
      {seen.map((category) => (
        <span key={category}>
          <i class={`c-${category}`} />
          {props.labels.get(category) ?? category.replaceAll("_", " ")}
        </span>
      ))}
    </p>
  );
}

export function StepPage(props: PageProps): JSX.Element {
  const chart = elementOf(props.page.page, "step_chart");
  const newest = chart ? chart.last_step : 0;
  const asked = chosenNumber("step");
  const step = asked ?? Math.max(0, newest - (props.page.going_on ? 70 : 0)); // what is written lies a little behind
  const rankChosen = chosenNumber("rank");
  const around = useAsked((signal) => api.steps(props.run, {from: Math.max(0, step - AROUND), to: step + AROUND, bins: 2 * AROUND + 1}, signal), `around ${props.run} ${Math.floor(step / 100)}`);
  const anatomy = useAsked((signal) => api.step(props.run, step, signal), `step ${props.run} ${step}`);
  const ledger = useAsked((signal) => api.ledger(props.run, signal), `ledger ${props.run}`);
  const labels = useMemo(() => new Map(ledger.value?.job.map((part) => [part.category, part.label])), [ledger.value]);
  const series = useMemo(() => (around.value && around.value.longest_ms.length > 1 ? seriesOf(around.value) : null), [around.value]);
  const slow = (way: 1 | -1): number | null => {
    if (!series) return null;
    const limit = middleOf(series.longest) * SLOW;
    const found = series.steps.filter((s, i) => (series.longest[i] ?? 0) > limit && (way > 0 ? s > step : s < step));
    return (way > 0 ? found[0] : found.at(-1)) ?? null;
  };
  const [before, after] = [slow(-1), slow(1)];
  const to = (next: number | null): void => {
    if (next !== null && next >= 0) choose({step: next});
  };
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (/^(INPUT|SELECT|TEXTAREA)$/.test((event.target as HTMLElement).tagName)) return;
      if (event.key === "[") to(before);
      if (event.key === "]") to(after);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  if (!chart) return <Empty title="No step yet">The first completed step appears here.</Empty>;
  return (
    <>
      {series && (
        <Card title="Around it" aside="longest rank of each step; click a step">
          <StepPlot series={series} height={130} mark={step} onStep={(s) => to(s)} />
        </Card>
      )}
      <Card title={`Step ${grouped(step)}`} aside="each rank's own parts, in the order of a step; what the run file keeps has no order within a part">
        <div class="bar">
          <button type="button" disabled={before === null} onClick={() => to(before)}>
            ← slow step
          </button>
          <button type="button" disabled={step <= 0} onClick={() => to(step - 1)}>
            ← step
          </button>
          <label>
            <span class="unseen">Step</span>
            <input type="number" min={0} max={newest} value={step} onChange={(e) => to(Number(e.currentTarget.value))} />
          </label>
          <button type="button" disabled={step >= newest} onClick={() => to(step + 1)}>
            step →
          </button>
          <button type="button" disabled={after === null} onClick={() => to(after)}>
            slow step →
          </button>
        </div>
        <Await asked={anatomy} what={`step ${step}`}>
          {(value) => {
            const longest = Math.max(...value.ranks.map((rank) => rank.wall_ms ?? 0), 1e-6);
            const most = Math.max(...value.ranks.map((rank) => rank.caused_ms ?? 0));
            const shown = value.ranks.length <= ROWS ? value.ranks : [...value.ranks].sort((a, b) => (b.caused_ms ?? 0) - (a.caused_ms ?? 0) || (b.own_ms ?? 0) - (a.own_ms ?? 0)).slice(0, ROWS);
            return (
              <>
                <p class="phrases soft">
                  <span>took {inMs(value.wall_ms)}</span>
                  {value.median_ms !== null && <span>median step {inMs(value.median_ms)}</span>}
                  {value.steps > 1 && <span>stands for {value.steps} steps</span>}
                  {value.tags.map((tag) => (
                    <span key={tag}>{tag.replaceAll("_", " ")}</span>
                  ))}
                </p>
                <div class="scroll" tabIndex={0} role="region" aria-label={`Step ${step}, rank by rank`}>
                  <table class="step">
                    <thead>
                      <tr>
                        <th scope="col">Rank</th>
                        <th scope="col" class="left">
                          0 to {inMs(longest)}
                        </th>
                        <th scope="col">Own</th>
                        <th scope="col">Waits</th>
                        <th scope="col">For</th>
                        <th scope="col">Delays others</th>
                      </tr>
                    </thead>
                    <tbody>
                      {shown.map((rank) => (
                        <Row key={rank.rank} rank={rank} longest={longest} meeting={value.meeting} labels={labels} last={most > 0 && rank.caused_ms === most} chosen={rank.rank === rankChosen} />
                      ))}
                    </tbody>
                  </table>
                </div>
                {shown.length < value.ranks.length && (
                  <p class="soft">
                    {shown.length} of {grouped(value.ranks.length)} ranks: those that delay others most.
                  </p>
                )}
                <Legend step={value} labels={labels} />
                {value.meeting && <MeetingLines meeting={value.meeting} />}
              </>
            );
          }}
        </Await>
      </Card>
    </>
  );
}
