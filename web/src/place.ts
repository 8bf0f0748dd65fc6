// Where the reader is: run, page and what is chosen on it, all in the part of the address after #, so that an address can
// be shared. "#/run/my-run/ranks?from=10&to=90&rank=3".
import {computed, signal} from "@preact/signals";

export const PAGES = ["overview", "findings", "ranks", "step", "memory", "collectives", "system"] as const;
export type PageName = (typeof PAGES)[number];

export interface Place {
  view: "runs" | "compare" | "run";
  run: string;
  page: PageName;
  chosen: URLSearchParams;
}

function parse(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  const chosen = new URLSearchParams(query);
  if (parts[0] === "compare") return {view: "compare", run: "", page: "overview", chosen};
  if (parts[0] !== "run" || !parts[1]) return {view: "runs", run: "", page: "overview", chosen};
  const page = PAGES.find((name) => name === parts[2]) ?? "overview";
  return {view: "run", run: parts[1], page, chosen};
}

export const place = signal(parse(location.hash));
addEventListener("hashchange", () => {
  place.value = parse(location.hash);
});

export const run = computed(() => place.value.run);

export function hrefOf(name: string, page: PageName = "overview", chosen: Record<string, string | number> = {}): string {
  const query = new URLSearchParams(Object.entries(chosen).map(([key, value]) => [key, String(value)])).toString();
  return `#/run/${encodeURIComponent(name)}/${page}${query ? `?${query}` : ""}`;
}

export const chosen = (name: string): string | null => place.value.chosen.get(name);
export function chosenNumber(name: string): number | undefined {
  const text = chosen(name);
  return text !== null && /^\d+$/.test(text) ? Number(text) : undefined;
}

// Changes what is chosen without a new entry in the history; null takes it away.
export function choose(changes: Record<string, string | number | null>): void {
  const next = new URLSearchParams(place.value.chosen);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) next.delete(name);
    else next.set(name, String(value));
  }
  const path = location.hash.split("?", 1)[0] || "#/";
  const query = next.toString();
  history.replaceState(null, "", query ? `${path}?${query}` : path);
  place.value = parse(location.hash);
}

export function go(hash: string): void {
  location.hash = hash;
}
