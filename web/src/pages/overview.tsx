// The verdict, what it rests on, and where the time went: the first screen of a run.
import type {JSX} from "preact";
import {useMemo} from "preact/hooks";
import {api} from "../api";
import {useAsked} from "../ask";
import type {Element, PageModel, Verdict} from "../api_types";
import {seriesOf, StepPlot, type StepSeries, Waterfall} from "../charts";
import {go, hrefOf} from "../place";
import {Badge, Card, elementOf, LedgerBar, Phrases, SectionCards, Table} from "../parts";
import type {PageProps} from "../shell";

export function VerdictCard(props: {verdict: Verdict; more?: string}): JSX.Element {
  const v = props.verdict;
  return (
    <section class={`card verdict ${v.severity}`}>
      <Badge name={v.name} severity={v.severity} />
      <h2 class="headline">{v.headline}</h2>
      <div class="verdict-body">
        <div>
          {(v.cost || v.saves) && (
            <div class="numbers">
              {v.cost && (
                <div>
                  <span>Costs</span>
                  <b>{v.cost}</b>
                </div>
              )}
              {v.saves && (
                <div>
                  <span>Saves</span>
                  <b>{v.saves}</b>
                </div>
              )}
            </div>
          )}
          {v.action && (
            <p class="next">
              <b>Next</b>
              {v.action}
            </p>
          )}
          <Phrases items={v.context} />
          {props.more && (
            <p class="soft">
              <a href={props.more}>Evidence</a>
              {v.explain && (
                <>
                  {" · "}
                  <code>{v.explain}</code>
                </>
              )}
            </p>
          )}
        </div>
        <Facts verdict={v} />
      </div>
    </section>
  );
}

const SHORT = 24; // characters of a figure; longer ones are words

export function Facts(props: {verdict: Verdict}): JSX.Element | null {
  if (props.verdict.facts.length === 0) return null;
  return (
    <table class={`facts ${props.verdict.facts.some((fact) => fact.value.length > SHORT) ? "wordy" : ""}`}>
      <caption>Why</caption>
      <tbody>
        {props.verdict.facts.map((fact, i) => {
          const below = fact.others.length > SHORT ? fact.others : "";
          const words = fact.value.length > SHORT;
          return (
            <>
              <tr key={i}>
                <th scope="row">{fact.label}</th>
                <td class="who">{fact.who}</td>
                <td class={words ? "words" : "value"} colSpan={words ? 2 : 1}>
                  {fact.value}
                </td>
                {!words && <td class="soft">{below ? "" : fact.others}</td>}
              </tr>
              {below && (
                <tr key={`${i} below`}>
                  <td />
                  <td colSpan={3} class="words soft">
                    {below}
                  </td>
                </tr>
              )}
            </>
          );
        })}
      </tbody>
    </table>
  );
}

// Any element of the page as it is; pages draw some of them in a way of their own.
export function Drawn(props: {element: Element; title: string; run: string}): JSX.Element | null {
  const {element, run} = props;
  switch (element.kind) {
    case "phrases":
      return <Phrases items={element.items} tone={element.tone} />;
    case "lines":
      return (
        <>
          {element.items.map((item) => (
            <p key={item} class={element.tone}>
              {item}
            </p>
          ))}
        </>
      );
    case "table":
      return <Table table={element} label={props.title} />;
    case "ledger":
      return <Waterfall parts={element.parts} />;
    case "rank_bars":
      return (
        <div class="bars">
          {element.bars.map((bar) => (
            <div key={bar.label} class={bar.culprit ? "mark" : ""}>
              <a href={hrefOf(run, "ranks")}>{bar.label}</a>
              <LedgerBar slices={bar.slices} length={bar.length} />
              <span>{bar.value}</span>
            </div>
          ))}
        </div>
      );
    case "cards":
      return <SectionCards cards={element.cards} />;
    case "findings":
      return (
        <ul class="found">
          {element.items.map((item, i) => (
            <li key={i} class={item.severity}>
              <Badge name={item.name} severity={item.severity} />
              <p>
                {item.title}
                {item.cost && <small> costs {item.cost}</small>}
              </p>
              {item.action && <p class="soft">{item.action}</p>}
            </li>
          ))}
        </ul>
      );
    default:
      return null; // step_chart, heat_map: drawn from the run's own series
  }
}

export function BlockCard(props: {page: PageModel; title: string; run: string}): JSX.Element | null {
  const block = props.page.blocks.find((b) => b.title === props.title);
  if (!block) return null;
  return (
    <Card title={block.title} aside={block.aside}>
      {block.elements.map((element, i) => (
        <Drawn key={i} element={element} title={block.title} run={props.run} />
      ))}
    </Card>
  );
}

// A run that goes on has its newest steps in the page; one that has ended is read whole.
function StepTime(props: {page: PageModel; run: string; goingOn: boolean}): JSX.Element | null {
  const chart = elementOf(props.page, "step_chart");
  const asked = useAsked((signal) => (props.goingOn ? Promise.resolve(null) : api.steps(props.run, {bins: 1200}, signal)), `steps ${props.run} ${props.goingOn}`);
  const series = useMemo((): StepSeries | null => {
    if (asked.value && asked.value.longest_ms.length > 1) return seriesOf(asked.value);
    if (!chart) return null;
    return {
      steps: chart.wall_ms.map((_, i) => chart.first_step + i),
      longest: chart.wall_ms,
      median: chart.median_ms,
      ticks: [],
    };
  }, [asked.value, chart]);
  if (!series || series.steps.length < 2) return null;
  const range = (from: number, to: number): void => go(hrefOf(props.run, "ranks", {from, to}));
  return (
    <Card title="Time per step" aside={props.goingOn ? "the newest steps, longest rank; drag to look closer" : "longest rank of each step; dashed: the median; drag to look closer"}>
      <StepPlot series={series} onRange={range} onStep={(step) => go(hrefOf(props.run, "step", {step}))} />
    </Card>
  );
}

export function Overview(props: PageProps): JSX.Element {
  const model = props.page.page;
  const more = hrefOf(props.run, "findings");
  const ledger = model.blocks.find((block) => block.elements.some((e) => e.kind === "ledger"));
  return (
    <>
      <VerdictCard verdict={model.verdict} more={more} />
      {ledger && (
        <Card title={ledger.title} aside={ledger.aside}>
          {ledger.elements.map((element, i) => (
            <Drawn key={i} element={element} title={ledger.title} run={props.run} />
          ))}
        </Card>
      )}
      <StepTime page={model} run={props.run} goingOn={props.page.going_on} />
      <div class="pair">
        <BlockCard page={model} title="Step time" run={props.run} />
        <BlockCard page={model} title="Also found" run={props.run} />
      </div>
      <BlockCard page={model} title="Sections" run={props.run} />
      <BlockCard page={model} title="Epochs" run={props.run} />
      <div class="pair">
        <BlockCard page={model} title="Checks" run={props.run} />
        <BlockCard page={model} title="Observer" run={props.run} />
      </div>
      <footer>
        {model.command && <code>{model.command}</code>}
        <Phrases items={model.versions} />
      </footer>
    </>
  );
}
