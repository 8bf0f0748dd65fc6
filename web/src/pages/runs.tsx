// The history: every run with its verdict; two of them chosen are compared.
import type {JSX} from "preact";
import {useEffect, useState} from "preact/hooks";
import {api} from "../api";
import {useAsked} from "../ask";
import type {RunDigest} from "../api_types";
import {choose, chosen, go, hrefOf} from "../place";
import {Await, Badge, Card, Empty, grouped, Sparkline} from "../parts";

const matches = (run: RunDigest, words: string): boolean => {
  const text = `${run.name} ${run.status} ${run.verdict} ${run.title} ${run.command}`.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
};

function started(run: RunDigest): string {
  const date = new Date(run.started_at);
  return Number.isNaN(date.getTime()) ? "–" : date.toISOString().slice(0, 16).replace("T", " ");
}

// Time per step against memory: what pays off stands at the lower left.
function Pareto(props: {runs: RunDigest[]}): JSX.Element | null {
  const known = props.runs.filter((run) => run.step_p50_ms !== null && run.peak_bytes !== null);
  if (known.length < 2) return null;
  const mostMs = Math.max(...known.map((run) => run.step_p50_ms ?? 0)) * 1.1;
  const mostBytes = Math.max(...known.map((run) => run.peak_bytes ?? 0)) * 1.1;
  return (
    <Card title="Time against memory" aside="median step and the largest peak of device memory; lower left is better">
      <svg class="pareto" viewBox="0 0 640 220" role="img" aria-label="Median step time against peak memory of each run">
        <line x1="40" x2="630" y1="190" y2="190" />
        <line x1="40" x2="40" y1="10" y2="190" />
        <text x="630" y="210" text-anchor="end">
          step time
        </text>
        <text x="46" y="20">
          memory
        </text>
        {known.map((run) => (
          <a key={run.name} href={hrefOf(run.name)} aria-label={`${run.name}: ${run.step}, ${run.peak}`}>
            <circle class={run.severity} cx={40 + ((run.step_p50_ms ?? 0) / mostMs) * 580} cy={190 - ((run.peak_bytes ?? 0) / mostBytes) * 175} r="6">
              <title>{`${run.name}: ${run.step}, ${run.peak}`}</title>
            </circle>
          </a>
        ))}
      </svg>
    </Card>
  );
}

export function Runs(): JSX.Element {
  const [fresh, setFresh] = useState(0);
  const [picked, setPicked] = useState<string[]>([]);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setFresh((n) => n + 1), 5000);
    return () => clearInterval(timer);
  }, []);
  const asked = useAsked((signal) => api.runs(signal), "runs", fresh);
  const words = chosen("q") ?? "";
  const pick = (name: string): void => setPicked((old) => (old.includes(name) ? old.filter((n) => n !== name) : [...old, name].slice(-2)));
  return (
    <Await asked={asked} what="the history">
      {({logs, runs}) => {
        const shown = runs.filter((run) => matches(run, words));
        // The older one is the reference.
        const pair = runs.filter((run) => picked.includes(run.name)).sort((a, b) => a.started_at.localeCompare(b.started_at));
        const [a, b] = pair;
        return (
          <>
            <div class="run-head">
              <h1>Runs</h1>
              {logs && <code class="soft">{logs}</code>}
            </div>
            {runs.length === 0 ? (
              <Empty title="No run yet">
                <code>stepscope run train.py</code> leaves its first one here{logs ? ` (${logs})` : ""}; this page notices by itself.
              </Empty>
            ) : (
              <Card>
                <div class="bar">
                  <label>
                    <span class="unseen">Filter runs</span>
                    <input type="search" placeholder="Filter by name, verdict, command" value={words} onInput={(e) => choose({q: e.currentTarget.value || null})} />
                  </label>
                  <span class="soft">
                    {shown.length === runs.length ? `${grouped(runs.length)} runs` : `${grouped(shown.length)} of ${grouped(runs.length)} runs`}
                  </span>
                  <button type="button" disabled={!a || !b} onClick={() => a && b && go(`#/compare?a=${encodeURIComponent(a.name)}&b=${encodeURIComponent(b.name)}`)}>
                    {a && b ? `Compare ${b.name} with ${a.name}` : "Choose two to compare"}
                  </button>
                </div>
                {shown.length === 0 ? (
                  <Empty title="No run fits the filter" />
                ) : (
                  <div class="scroll" tabIndex={0} role="region" aria-label="Runs">
                    <table class="runs">
                      <thead>
                        <tr>
                          <th scope="col">
                            <span class="unseen">Choose</span>
                          </th>
                          <th scope="col" class="left">
                            Run
                          </th>
                          <th scope="col" class="left">
                            Verdict
                          </th>
                          <th scope="col">Step</th>
                          <th scope="col" class="left">
                            Newest steps
                          </th>
                          <th scope="col">Steps</th>
                          <th scope="col">Ranks</th>
                          <th scope="col">Took</th>
                          <th scope="col" class="left">
                            Started (UTC)
                          </th>
                        </tr>
                      </thead>
                      <tbody>
                        {shown.map((run) => (
                          <tr key={run.name} class={run.going_on ? "live" : ""}>
                            <td>
                              <input type="checkbox" checked={picked.includes(run.name)} onChange={() => pick(run.name)} aria-label={`Choose ${run.name}`} />
                            </td>
                            <td class="left">
                              <a href={hrefOf(run.name)}>{run.name}</a>
                              <small class={/crashed|hung|unfinished/.test(run.status) ? "alert" : "soft"}>{run.status}</small>
                            </td>
                            <td class="left verdict-cell">
                              {run.verdict ? <Badge name={run.verdict} severity={run.severity} /> : <span class="soft">{run.trouble || "–"}</span>}
                              {run.title && (
                                <small class="soft">
                                  {run.title}
                                  {run.cost && ` · costs ${run.cost}`}
                                </small>
                              )}
                            </td>
                            <td>{run.step}</td>
                            <td class="left">
                              <Sparkline values={run.walls_ms} zero label={`Time of the newest steps of ${run.name}`} />
                            </td>
                            <td>{run.steps > 0 ? grouped(run.steps) : "–"}</td>
                            <td>{run.world_size > 0 ? run.world_size : "–"}</td>
                            <td>{run.duration}</td>
                            <td class="left">{started(run)}</td>
                          </tr>
                        ))}
                      </tbody>
                    </table>
                  </div>
                )}
              </Card>
            )}
            <Pareto runs={shown} />
          </>
        );
      }}
    </Await>
  );
}
