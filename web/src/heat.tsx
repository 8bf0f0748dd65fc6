// Ranks × steps on a canvas: one byte a cell from the server, painted once into a picture of its own; moving and zooming
// only draw that picture again. More ranks than pixels: the largest of those that share a row is shown, so that no late
// rank vanishes.
import type {JSX} from "preact";
import {useEffect, useMemo, useRef, useState} from "preact/hooks";
import type {Heat} from "./api_types";
import {colour, onTheme} from "./charts";
import {grouped, inMs} from "./parts";

export interface HeatData {
  heat: Heat;
  levels: Uint8Array;
  bins: number;
}

export function decoded(heat: Heat): HeatData {
  const text = atob(heat.levels);
  const levels = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) levels[i] = text.charCodeAt(i);
  const bins = heat.ranks.length > 0 ? Math.floor(levels.length / heat.ranks.length) : 0;
  return {heat, levels, bins};
}

// What a byte means: a ratio or a share; null = not seen.
export function valueOf(heat: Heat, level: number): number | null {
  if (level === 0) return null;
  const position = (level - 1) / 254;
  const {low, high, ratio} = heat.scale;
  return ratio ? low * (high / low) ** position : low + position * (high - low);
}

export function valueText(heat: Heat, value: number | null): string {
  if (value === null) return "not seen";
  if (heat.measure === "own") return `${value.toFixed(2)} × the ranks' median`;
  if (heat.measure === "memory") return heat.scale.high > 1 ? `${(value / 2 ** 30).toFixed(2)} GiB` : "not measured";
  return `${(value * 100).toFixed(0)} % of the step`;
}

// Bounds of the seven colours: the same as in text and HTML (report/page.h) for ratios.
const RATIOS = [1.05, 1.15, 1.3, 1.6, 2, 3];
const SHARES = [0.02, 0.05, 0.1, 0.2, 0.4, 0.6];
const FILLED = [0.3, 0.5, 0.65, 0.8, 0.9, 0.96];
export const boundsOf = (heat: Heat): number[] =>
  heat.measure === "own" ? RATIOS : heat.measure === "memory" ? FILLED.map((share) => share * heat.scale.high) : SHARES;

export function boundText(heat: Heat, bound: number): string {
  if (heat.measure === "own") return `${bound} ×`;
  return heat.measure === "memory" ? `${(bound / 2 ** 30).toFixed(1)} GiB` : `${Math.round(bound * 100)} %`;
}

// Red, green, blue of a "#rrggbb".
function channels(text: string): [number, number, number] {
  const value = Number.parseInt(text.replace("#", ""), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

// Little-endian RGBA by level.
function lookup(heat: Heat): Uint32Array {
  const colours = [0, 1, 2, 3, 4, 5, 6].map((i) => channels(colour(`--h${i}`)));
  const bounds = boundsOf(heat);
  const table = new Uint32Array(256);
  for (let level = 1; level < 256; level++) {
    const value = valueOf(heat, level) ?? 0;
    const at = bounds.filter((bound) => value > bound).length;
    const [r, g, b] = colours[at] ?? [0, 0, 0];
    table[level] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return table;
}

function paint(data: HeatData, order: number[], perRow: number): HTMLCanvasElement {
  const rows = Math.ceil(order.length / perRow);
  const picture = document.createElement("canvas");
  picture.width = Math.max(1, data.bins);
  picture.height = Math.max(1, rows);
  const context = picture.getContext("2d");
  if (!context || data.bins === 0) return picture;
  const image = context.createImageData(picture.width, picture.height);
  const pixels = new Uint32Array(image.data.buffer);
  const table = lookup(data.heat);
  for (let row = 0; row < rows; row++) {
    for (let bin = 0; bin < data.bins; bin++) {
      let most = 0;
      for (let i = row * perRow; i < Math.min(order.length, (row + 1) * perRow); i++)
        most = Math.max(most, data.levels[(order[i] ?? 0) * data.bins + bin] ?? 0);
      pixels[row * data.bins + bin] = table[most] ?? 0;
    }
  }
  context.putImageData(image, 0, 0);
  return picture;
}

export interface HeatMapProps {
  data: HeatData;
  order: number[]; // places in heat.ranks, from top to bottom
  names: (place: number) => string;
  marked: Set<number>; // ranks
  onRange?: ((from: number, to: number) => void) | undefined;
  onStep?: ((step: number, rank: number) => void) | undefined;
  most?: number; // height in pixels
}

export function HeatMap(props: HeatMapProps): JSX.Element {
  const {data, order} = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(800);
  const [at, setAt] = useState<{row: number; bin: number} | null>(null);
  const [drag, setDrag] = useState<{from: number; to: number} | null>(null);
  const [theme, setTheme] = useState(0);
  const most = props.most ?? 640;
  const rowPixels = Math.max(1, Math.min(order.length <= 8 ? 34 : 22, Math.floor(most / Math.max(1, order.length))));
  const perRow = Math.max(1, Math.ceil(order.length / most));
  const rows = Math.ceil(order.length / perRow);
  const height = Math.max(1, rows * rowPixels);
  const picture = useMemo(() => paint(data, order, perRow), [data, order, perRow, theme]);
  useEffect(() => onTheme(() => setTheme((n) => n + 1)), []);
  useEffect(() => {
    const element = canvas.current?.parentElement;
    if (!element) return;
    const fit = new ResizeObserver(() => setWidth(Math.max(100, element.clientWidth)));
    fit.observe(element);
    return () => fit.disconnect();
  }, []);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!canvas.current || !context) return;
    const dots = Math.min(2, devicePixelRatio || 1);
    canvas.current.width = Math.round(width * dots);
    canvas.current.height = Math.round(height * dots);
    context.imageSmoothingEnabled = false;
    context.clearRect(0, 0, canvas.current.width, canvas.current.height);
    context.drawImage(picture, 0, 0, canvas.current.width, canvas.current.height);
    context.scale(dots, dots);
    if (rowPixels >= 6) {
      context.fillStyle = colour("--card");
      for (let row = 1; row < rows; row++) context.fillRect(0, row * rowPixels - 0.5, width, 1);
    }
    context.strokeStyle = colour("--ink");
    context.lineWidth = 1.5;
    if (at) {
      const cell = width / Math.max(1, data.bins);
      context.strokeRect(at.bin * cell, at.row * rowPixels, Math.max(3, cell), Math.max(3, rowPixels));
    }
    if (drag) {
      context.globalAlpha = 0.18;
      context.fillStyle = colour("--ink");
      const cell = width / Math.max(1, data.bins);
      const [a, b] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to) + 1];
      context.fillRect(a * cell, 0, (b - a) * cell, height);
    }
  }, [picture, width, height, at, drag]);

  const {from, per_bin, to} = data.heat.range;
  const spot = (event: MouseEvent): {row: number; bin: number} => {
    const box = canvas.current?.getBoundingClientRect() ?? new DOMRect(0, 0, 1, 1);
    const bin = Math.floor(((event.clientX - box.left) / box.width) * data.bins);
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    return {row: Math.min(rows - 1, Math.max(0, row)), bin: Math.min(data.bins - 1, Math.max(0, bin))};
  };
  // Of the ranks that share the row the one that gave it its colour.
  const placeAt = (row: number, bin: number): number => {
    let best = order[row * perRow] ?? 0;
    for (let i = row * perRow; i < Math.min(order.length, (row + 1) * perRow); i++) {
      const place = order[i] ?? 0;
      if ((data.levels[place * data.bins + bin] ?? 0) > (data.levels[best * data.bins + bin] ?? 0)) best = place;
    }
    return best;
  };
  const stepOf = (bin: number): number => from + bin * per_bin;
  const open = (spotAt: {row: number; bin: number}): void =>
    props.onStep?.(stepOf(spotAt.bin), data.heat.ranks[placeAt(spotAt.row, spotAt.bin)] ?? 0);
  const words = (): string => {
    if (!at) return "";
    const place = placeAt(at.row, at.bin);
    const first = stepOf(at.bin);
    const last = Math.min(to, first + per_bin - 1);
    const value = valueOf(data.heat, data.levels[place * data.bins + at.bin] ?? 0);
    const reference = data.heat.reference_ms[at.bin];
    const step = last > first ? `steps ${grouped(first)}–${grouped(last)}` : `step ${grouped(first)}`;
    const median = reference !== null && reference !== undefined && value !== null ? ` of ${inMs(reference)}` : "";
    return `${props.names(place)} · ${step} · ${valueText(data.heat, value)}${median}`;
  };
  const onKey = (event: KeyboardEvent): void => {
    const now = at ?? {row: 0, bin: data.bins - 1};
    const moves: Record<string, [number, number]> = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    const move = moves[event.key];
    if (move) {
      event.preventDefault();
      setAt({
        row: Math.min(rows - 1, Math.max(0, now.row + move[0])),
        bin: Math.min(data.bins - 1, Math.max(0, now.bin + move[1] * (event.shiftKey ? 10 : 1))),
      });
    } else if (event.key === "Enter") open(now);
  };
  const labels = rowPixels >= 11;
  return (
    <div class="heat">
      {labels && (
        <div class="heat-labels" style={{height: `${height}px`}} aria-hidden="true">
          {order.map((place) => (
            <span key={place} class={props.marked.has(data.heat.ranks[place] ?? -1) ? "mark" : ""}>
              {data.heat.ranks[place]}
            </span>
          ))}
        </div>
      )}
      <div class="heat-body">
        <canvas
          ref={canvas}
          tabIndex={0}
          role="application"
          aria-roledescription="heat map"
          aria-label={`Ranks by steps, ${order.length} ranks, steps ${from} to ${to}. Arrow keys move, Enter opens the step.`}
          style={{height: `${height}px`}}
          onMouseMove={(event) => {
            const now = spot(event);
            setAt(now);
            if (drag && event.buttons === 1) setDrag({...drag, to: now.bin});
          }}
          onMouseDown={(event) => {
            const {bin} = spot(event);
            setDrag({from: bin, to: bin});
          }}
          onMouseUp={(event) => {
            const chosen = drag;
            setDrag(null);
            if (!chosen) return;
            const [a, b] = [Math.min(chosen.from, chosen.to), Math.max(chosen.from, chosen.to)];
            if (b - a >= 2) props.onRange?.(stepOf(a), Math.min(to, stepOf(b) + per_bin - 1));
            else open(spot(event));
          }}
          onMouseLeave={() => {
            setAt(null);
            setDrag(null);
          }}
          onKeyDown={onKey}
        />
        <div class="heat-axis" aria-hidden="true">
          <span>step {grouped(from)}</span>
          {per_bin > 1 && <span>{grouped(per_bin)} steps a column: the largest of them</span>}
          <span>{grouped(to)}</span>
        </div>
        <output class="pointer under">{words() || " "}</output>
      </div>
    </div>
  );
}

export function HeatLegend(props: {heat: Heat}): JSX.Element {
  const bounds = boundsOf(props.heat);
  return (
    <p class="legend soft">
      {[0, 1, 2, 3, 4, 5, 6].map((i) => (
        <span key={i}>
          <i class={`h${i}`} />
          {i < 6 ? `≤ ${boundText(props.heat, bounds[i] ?? 0)}` : `> ${boundText(props.heat, bounds[5] ?? 0)}`}
        </span>
      ))}
      <span>
        <i class="hatch" />
        not seen
      </span>
    </p>
  );
}
