// Reads the server. One answer per address is kept with its ETag: what has not changed is not sent again.
import type {Comparison, Error as ApiError, Anatomy, Collectives, Findings, Heat, Ledger, Page, Ranks, Runs, Samples, Steps} from "./api_types";

export class Failure extends Error {
  constructor(
    readonly status: number, // 0 = no answer at all
    message: string,
  ) {
    super(message);
  }
}

interface Kept {
  tag: string;
  value: unknown;
}
const kept = new Map<string, Kept>();
const KEPT = 40;

// The front page has set a cookie; the address must not carry the token on into bookmarks and screenshots.
export function takeToken(): void {
  const address = new URL(location.href);
  if (!address.searchParams.has("token")) return;
  address.searchParams.delete("token");
  history.replaceState(null, "", address);
}

async function read<T>(path: string, signal?: AbortSignal): Promise<T> {
  const before = kept.get(path);
  let answer: Response;
  try {
    const init: RequestInit = {headers: before ? {"If-None-Match": before.tag} : {}, cache: "no-store"};
    if (signal) init.signal = signal;
    answer = await fetch(path, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure(0, "The server does not answer. The run may have ended, or the connection is cut.");
  }
  if (answer.status === 503 && answer.headers.has("Retry-After")) {  // a large run is being read
    await new Promise((again) => setTimeout(again, 1000));
    if (signal?.aborted) throw new Failure(0, "given up");
    return read<T>(path, signal);
  }
  if (answer.status === 304 && before) return before.value as T;
  if (!answer.ok) {
    const told = (await answer.json().catch(() => null)) as ApiError | null;
    throw new Failure(answer.status, told?.error.message ?? `The server answers ${answer.status}.`);
  }
  const value = (await answer.json()) as T;
  const tag = answer.headers.get("ETag");
  if (tag) {
    kept.delete(path);
    kept.set(path, {tag, value});
    const oldest = kept.keys().next().value;
    if (kept.size > KEPT && oldest !== undefined) kept.delete(oldest);
  }
  return value;
}

export interface StepQuery {
  from?: number | undefined;
  to?: number | undefined;
  bins?: number | undefined;
  measure?: string | undefined;
}

function query(values: StepQuery): string {
  const text = Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`)
    .join("&");
  return text ? `?${text}` : "";
}

const of = (run: string, what: string): string => `api/v1/runs/${encodeURIComponent(run)}/${what}`;

export const api = {
  runs: (signal?: AbortSignal) => read<Runs>("api/v1/runs", signal),
  page: (run: string, signal?: AbortSignal) => read<Page>(of(run, "page"), signal),
  findings: (run: string, signal?: AbortSignal) => read<Findings>(of(run, "findings"), signal),
  ledger: (run: string, signal?: AbortSignal) => read<Ledger>(of(run, "ledger"), signal),
  ranks: (run: string, signal?: AbortSignal) => read<Ranks>(of(run, "ranks"), signal),
  collectives: (run: string, signal?: AbortSignal) => read<Collectives>(of(run, "collectives"), signal),
  steps: (run: string, asked: StepQuery, signal?: AbortSignal) => read<Steps>(of(run, `steps${query(asked)}`), signal),
  step: (run: string, step: number, signal?: AbortSignal) => read<Anatomy>(of(run, `steps/${step}`), signal),
  heat: (run: string, asked: StepQuery, signal?: AbortSignal) => read<Heat>(of(run, `heat${query(asked)}`), signal),
  samples: (run: string, signal?: AbortSignal) => read<Samples>(of(run, "samples"), signal),
  compare: (a: string, b: string, signal?: AbortSignal) =>
    read<Comparison>(`api/v1/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`, signal),
};

export const eventsOf = (run: string): string => `api/v1/events?run=${encodeURIComponent(run)}`;
