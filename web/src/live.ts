// A run that goes on: its events, and how fresh they are. `version` changes when the figures did; pages ask again then.
import {effect, signal} from "@preact/signals";
import {eventsOf} from "./api";
import type {StateEvent, StepsEvent} from "./api_types";
import {run} from "./place";

export type Link = "none" | "opening" | "live" | "stale" | "ended";

export const link = signal<Link>("none");
export const state = signal<StateEvent | null>(null);
export const version = signal(0);
export const newSteps = signal<StepsEvent | null>(null);
export const heardAt = signal(0); // ms since the epoch

const STALE_MS = 12_000;
let source: EventSource | null = null;

function hear(): void {
  heardAt.value = Date.now();
  if (link.value !== "ended") link.value = "live";
}

function parsed<T>(event: MessageEvent): T | null {
  try {
    return JSON.parse(event.data as string) as T;
  } catch {
    return null;
  }
}

export function follow(name: string): void {
  leave();
  link.value = "opening";
  const own = new EventSource(eventsOf(name));
  source = own;
  own.addEventListener("state", (event) => {
    hear();
    const told = parsed<StateEvent>(event);
    if (!told) return;
    state.value = told;
    version.value = told.version;
  });
  own.addEventListener("steps", (event) => {
    hear();
    newSteps.value = parsed<StepsEvent>(event);
  });
  own.addEventListener("beat", hear);
  own.addEventListener("end", () => {
    link.value = "ended";
    own.close();
  });
  own.onerror = () => {
    if (link.value === "live") link.value = "stale";
  };
}

export function leave(): void {
  source?.close();
  source = null;
  link.value = "none";
  state.value = null;
  newSteps.value = null;
  version.value = 0;
}

effect(() => {
  if (run.value === "") leave();
});
setInterval(() => {
  if (link.value === "live" && Date.now() - heardAt.value > STALE_MS) link.value = "stale";
}, 2000);
