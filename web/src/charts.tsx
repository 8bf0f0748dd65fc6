// Pictures made of series: the step as a waterfall, time per step (uPlot), a distribution.
import type {JSX} from "preact";
import {useEffect, useRef} from "preact/hooks";
import uPlot from "uplot";
import type {LedgerPart, Steps} from "./api_types";
import {grouped, inMs} from "./parts";

export const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Calls `again` when light turns to dark or back, since a canvas does not by itself.
export function onTheme(again: () => void): () => void {
  const watch = new MutationObserver(again);
  watch.observe(document.documentElement, {attributes: true, attributeFilter: ["data-theme"]});
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", again);
  return () => {
    watch.disconnect();
    media.removeEventListener("change", again);
  };
}

const COMPUTE = ["forward", "backward", "optimizer"];

// From the work that every step must do to what a step takes: one bar below the other, each beginning where the last ended.
export function Waterfall(props: {parts: LedgerPart[]}): JSX.Element {
  const work = props.parts.filter((part) => COMPUTE.includes(part.category));
  const rest = props.parts.filter((part) => !COMPUTE.includes(part.category)).sort((a, b) => b.share - a.share);
  let at = 0;
  const bars = [...work, ...rest].map((part) => {
    const begin = at;
    at += part.share;
    return {part, begin};
  });
  return (
    <ol class="waterfall" aria-label="The mean step, part by part">
      {bars.map(({part, begin}) => (
        <li key={part.category}>
          <span class="name">{part.label}</span>
          <span class="track">
            <i class={`c-${part.category}`} style={{marginLeft: `${begin * 100}%`, width: `max(2px, ${part.share * 100}%)`}} />
          </span>
          <b>{part.text}</b>
          <span class="soft">{part.per_step}</span>
        </li>
      ))}
    </ol>
  );
}

export interface StepSeries {
  steps: number[];
  longest: (number | null)[];
  median: number | null;
  ticks: {step: number; kind: string; text: string}[];
}

export function seriesOf(steps: Steps): StepSeries {
  const {from, per_bin} = steps.range;
  return {
    steps: steps.longest_ms.map((_, i) => from + i * per_bin),
    longest: steps.longest_ms,
    median: steps.median_ms,
    ticks: steps.ticks,
  };
}

// Where half of the values lie below.
export function middleOf(values: (number | null)[]): number {
  const known = values.filter((value): value is number => value !== null).sort((a, b) => a - b);
  return known[Math.floor((known.length - 1) / 2)] ?? 0;
}

function ticksPlugin(ticks: () => StepSeries["ticks"], mark: () => number | undefined): uPlot.Plugin {
  return {
    hooks: {
      draw: (plot) => {
        const {ctx, bbox} = plot;
        ctx.save();
        ctx.strokeStyle = colour("--warn");
        ctx.lineWidth = devicePixelRatio;
        ctx.setLineDash([3, 3]);
        for (const tick of ticks()) {
          const x = Math.round(plot.valToPos(tick.step, "x", true));
          if (x < bbox.left || x > bbox.left + bbox.width) continue;
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        }
        const marked = mark();
        if (marked !== undefined) {
          const x = Math.round(plot.valToPos(marked, "x", true));
          ctx.setLineDash([]);
          ctx.strokeStyle = colour("--ink");
          ctx.lineWidth = 2 * devicePixelRatio;
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        }
        ctx.restore();
      },
    },
  };
}

// Time per step. A drag chooses a range, a double click all of it, a click a step.
export function StepPlot(props: {
  series: StepSeries;
  height?: number;
  mark?: number | undefined; // a step
  onRange?: ((from: number, to: number) => void) | undefined;
  onAll?: (() => void) | undefined;
  onStep?: ((step: number) => void) | undefined;
}): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const data = (): uPlot.AlignedData => {
    const {steps, longest, median} = latest.current.series;
    return [steps, longest, steps.map(() => median)];
  };
  // One long step must not flatten the rest: the axis ends at four medians.
  const top = (): [number, number] => {
    const middle = latest.current.series.median ?? middleOf(latest.current.series.longest);
    const most = Math.max(...latest.current.series.longest.map((value) => value ?? 0));
    return [0, Math.max(1e-6, Math.min(most, middle > 0 ? middle * 4 : most)) * 1.08];
  };
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const make = (): void => {
      plot.current?.destroy();
      const soft = colour("--soft");
      const line = colour("--line");
      const accent = colour("--accent");
      const axis = {stroke: soft, grid: {stroke: line, width: 1}, ticks: {stroke: line, width: 1}, font: "12px system-ui"};
      plot.current = new uPlot(
        {
          width: Math.max(element.clientWidth, 200),
          height: latest.current.height ?? 190,
          legend: {show: false},
          cursor: {drag: {x: true, y: false, setScale: false}, points: {size: 7}},
          scales: {x: {time: false}, y: {range: () => top()}},
          axes: [
            {...axis, size: 30, values: (_, values) => values.map((v) => (Number.isInteger(v) ? grouped(v) : ""))},
            {...axis, size: 62, values: (_, values) => values.map((v) => inMs(v))},
          ],
          series: [
            {label: "step"},
            {label: "longest rank", stroke: accent, width: 1.4, fill: `${accent}1c`, points: {show: false}},
            {label: "median", stroke: soft, dash: [5, 4], width: 1, points: {show: false}},
          ],
          plugins: [ticksPlugin(() => latest.current.series.ticks, () => latest.current.mark)],
          hooks: {
            setSelect: [
              (u) => {
                if (u.select.width < 4) return;
                const from = Math.round(u.posToVal(u.select.left, "x"));
                const to = Math.round(u.posToVal(u.select.left + u.select.width, "x"));
                u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
                latest.current.onRange?.(Math.max(0, from), Math.max(from + 1, to));
              },
            ],
            setCursor: [
              (u) => {
                const i = u.cursor.idx;
                const out = element.querySelector("output");
                if (!out) return;
                const {steps, longest, ticks} = latest.current.series;
                const step = i === null || i === undefined ? undefined : steps[i];
                if (i === null || i === undefined || step === undefined) {
                  out.textContent = "";
                  return;
                }
                const span = (steps[i + 1] ?? step + 1) - step;
                const name = span > 1 ? `steps ${grouped(step)}–${grouped(step + span - 1)}, longest` : `step ${grouped(step)}`;
                const near = ticks.find((tick) => tick.step >= step && tick.step < step + span);
                out.textContent = `${name}: ${inMs(longest[i])}${near ? ` · ${near.text}` : ""}`;
              },
            ],
          },
        },
        data(),
        element,
      );
      plot.current.over.addEventListener("dblclick", () => latest.current.onAll?.());
      plot.current.over.addEventListener("click", () => {
        const i = plot.current?.cursor.idx;
        const step = i === null || i === undefined ? undefined : latest.current.series.steps[i];
        if (step !== undefined) latest.current.onStep?.(step);
      });
    };
    make();
    const fit = new ResizeObserver(() => {
      if (plot.current && element.clientWidth > 0 && Math.abs(plot.current.width - element.clientWidth) > 1)
        plot.current.setSize({width: element.clientWidth, height: latest.current.height ?? 190});
    });
    fit.observe(element);
    const off = onTheme(make);
    return () => {
      off();
      fit.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => {
    plot.current?.setData(data());
  }, [props.series, props.mark]);
  const {steps, longest} = props.series;
  const words = `Time per step, steps ${steps[0] ?? 0} to ${steps.at(-1) ?? 0}: middle ${inMs(middleOf(longest))}`;
  return (
    <div class="plot" ref={host} role="img" aria-label={words}>
      <output class="pointer" aria-live="off" />
    </div>
  );
}

// How often a ratio occurs: of one rank, and of the others behind it.
export function Distribution(props: {own: number[]; others: number[]; low: number; high: number; text: (value: number) => string}): JSX.Element {
  const BINS = 40;
  const count = (values: number[]): number[] => {
    const bins = new Array<number>(BINS).fill(0);
    for (const value of values) {
      const at = Math.min(BINS - 1, Math.max(0, Math.floor(((value - props.low) / (props.high - props.low)) * BINS)));
      bins[at] = (bins[at] ?? 0) + 1;
    }
    const total = values.length || 1;
    return bins.map((n) => n / total);
  };
  const own = count(props.own);
  const others = count(props.others);
  const most = Math.max(...own, ...others, 1e-9);
  const bars = (bins: number[], kind: string): JSX.Element[] =>
    bins.map((share, i) => <rect key={`${kind}${i}`} class={kind} x={i} width={0.92} y={40 - (share / most) * 38} height={(share / most) * 38} />);
  const marks = [props.low, (props.low + props.high) / 2, props.high];
  return (
    <figure class="distribution">
      <svg viewBox={`0 0 ${BINS} 40`} preserveAspectRatio="none" role="img" aria-label={`Distribution: culprit around ${props.text(middleOf(props.own))}, others around ${props.text(middleOf(props.others))}`}>
        {bars(others, "others")}
        {bars(own, "own")}
      </svg>
      <figcaption>
        {marks.map((mark) => (
          <span key={mark}>{props.text(mark)}</span>
        ))}
      </figcaption>
    </figure>
  );
}
