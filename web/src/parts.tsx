// The idioms that every page uses: card, badge, phrases, table, ledger bar, sparkline, and what stands where there is
// nothing yet, nothing at all, or trouble.
import type {ComponentChildren, JSX} from "preact";
import {useState} from "preact/hooks";
import type {Asked} from "./ask";
import type {Block, Element, PageModel, Severity, Slice, Table as TableModel} from "./api_types";

type Cards = Extract<Element, {kind: "cards"}>;
type Kind = Element["kind"];

export function elementOf<K extends Kind>(page: PageModel, kind: K): Extract<Element, {kind: K}> | null {
  for (const block of page.blocks)
    for (const element of block.elements) if (element.kind === kind) return element as Extract<Element, {kind: K}>;
  return null;
}
export const blockOf = (page: PageModel, title: string): Block | null =>
  page.blocks.find((block) => block.title === title) ?? null;

export function Card(props: {title?: string; aside?: string; children: ComponentChildren; kind?: string}): JSX.Element {
  return (
    <section class={`card ${props.kind ?? ""}`}>
      {props.title && (
        <h2>
          {props.title}
          {props.aside && <small>{props.aside}</small>}
        </h2>
      )}
      {props.children}
    </section>
  );
}

export function Badge(props: {name: string; severity: Severity; measured?: boolean}): JSX.Element {
  const severity = props.measured === false ? "none" : props.severity;
  return (
    <span class={`badge ${severity}`}>
      {props.name}
      {props.severity !== "info" && <small>{props.severity}</small>}
    </span>
  );
}

export function Phrases(props: {items: string[]; tone?: string}): JSX.Element {
  return (
    <p class={`phrases ${props.tone ?? "soft"}`}>
      {props.items.map((item) => (
        <span key={item}>{item}</span>
      ))}
    </p>
  );
}

const numberIn = (cell: string): number => {
  const found = /-?\d[\d,]*(\.\d+)?/.exec(cell);
  return found ? Number(found[0].replaceAll(",", "")) : Number.NEGATIVE_INFINITY;
};

function sorted(table: TableModel, by: number, down: boolean): TableModel["rows"] {
  const words = !table.columns[by]?.right;
  return [...table.rows].sort((a, b) => {
    const [x, y] = [a.cells[by] ?? "", b.cells[by] ?? ""];
    const order = words ? x.localeCompare(y) : numberIn(x) - numberIn(y);
    return down ? -order : order;
  });
}

// `sorts`: heads are buttons. `open`: what a click on a row does, with the text of its first cell.
export function Table(props: {table: TableModel; label: string; sorts?: boolean; open?: (first: string) => void}): JSX.Element {
  const {table, open} = props;
  const [order, setOrder] = useState<{by: number; down: boolean} | null>(null);
  const rows = order ? sorted(table, order.by, order.down) : table.rows;
  const turn = (by: number): void => setOrder(order?.by === by ? {by, down: !order.down} : {by, down: true});
  const sortOf = (by: number): "ascending" | "descending" | "none" =>
    order?.by !== by ? "none" : order.down ? "descending" : "ascending";
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={props.label}>
      <table>
        <thead>
          <tr>
            {table.columns.map((column, i) => (
              <th key={i} scope="col" class={column.right ? "" : "left"} aria-sort={props.sorts ? sortOf(i) : undefined}>
                {props.sorts ? (
                  <button type="button" class="sort" onClick={() => turn(i)}>
                    {column.title || "name"}
                    {column.unit && <small> {column.unit}</small>}
                  </button>
                ) : (
                  <>
                    {column.title || <span class="unseen">name</span>}
                    {column.unit && <small> {column.unit}</small>}
                  </>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, r) => (
            <tr key={r} class={row.mark}>
              {table.columns.map((column, i) => (
                <td key={i} class={column.right ? "" : "left"}>
                  {i === 0 && open ? (
                    <button type="button" class="link" onClick={() => open(row.cells[0] ?? "")}>
                      {row.cells[i]}
                    </button>
                  ) : (
                    row.cells[i]
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function LedgerBar(props: {slices: Slice[]; length?: number; tall?: boolean}): JSX.Element {
  const text = props.slices.map((s) => `${s.label} ${Math.round(s.share * 100)} %`).join(", ");
  return (
    <div class={`ledger-bar ${props.tall ? "tall" : ""}`} role="img" aria-label={text}>
      {props.slices.map((slice) => (
        <i
          key={slice.category}
          class={`c-${slice.category}`}
          title={`${slice.label} ${(slice.share * 100).toFixed(1)} %`}
          style={{width: `${slice.share * (props.length ?? 1) * 100}%`}}
        />
      ))}
    </div>
  );
}

export function SectionCards(props: {cards: Cards["cards"]}): JSX.Element {
  return (
    <div class="sections">
      {props.cards.map((card) => (
        <section key={card.title} class={card.measured ? card.severity : "none"}>
          <h3>{card.title}</h3>
          <Badge name={card.word} severity={card.severity} measured={card.measured} />
          <p>{card.text}</p>
          {card.lines.length > 0 && (
            <dl>
              {card.lines.map((line) => (
                <div key={line.label}>
                  <dt>{line.label}</dt>
                  <dd>{line.text}</dd>
                </div>
              ))}
            </dl>
          )}
        </section>
      ))}
    </div>
  );
}

// A thin line with its own least and most.
export function Sparkline(props: {values: (number | null)[]; label: string; zero?: boolean; wide?: boolean}): JSX.Element {
  const known = props.values.filter((value): value is number => value !== null);
  if (known.length < 2) return <span class="soft">–</span>;
  const most = Math.max(...known);
  const least = props.zero ? 0 : Math.min(...known);
  const span = most - least || 1;
  const points = props.values
    .map((value, i) => (value === null ? "" : `${((i / (props.values.length - 1)) * 100).toFixed(2)},${(22 - ((value - least) / span) * 20).toFixed(2)}`))
    .filter(Boolean)
    .join(" ");
  return (
    <svg class={`sparkline ${props.wide ? "wide" : ""}`} viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label={props.label}>
      <polyline points={points} />
    </svg>
  );
}

// What stands in the place of a value: loading, failed, or the value (with a word above it where it is old).
export function Await<T>(props: {asked: Asked<T>; what: string; children: (value: T) => ComponentChildren}): JSX.Element {
  const {value, failure} = props.asked;
  if (value !== null) {
    return (
      <>
        {failure && <Trouble message={failure.message} old />}
        {props.children(value)}
      </>
    );
  }
  if (failure) return <Trouble message={failure.message} locked={failure.status === 401} />;
  return (
    <p class="waiting" role="status">
      Reading {props.what} … <span>A large run takes a while.</span>
    </p>
  );
}

export function Trouble(props: {message: string; old?: boolean; locked?: boolean}): JSX.Element {
  return (
    <div class="trouble" role="alert">
      <b>{props.locked ? "Locked" : props.old ? "Not up to date" : "This cannot be shown"}</b>
      <p>{props.message}</p>
    </div>
  );
}

export function Empty(props: {title: string; children?: ComponentChildren}): JSX.Element {
  return (
    <div class="empty">
      <b>{props.title}</b>
      {props.children && <p>{props.children}</p>}
    </div>
  );
}

// Three significant digits, for axes and pointers; tables come from the server with their texts.
export function inMs(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  if (ms >= 1000) return `${Number((ms / 1000).toPrecision(3))} s`;
  return `${ms < 0.01 ? 0 : Number(ms.toPrecision(3))} ms`;
}
export const grouped = (count: number): string => count.toLocaleString("en-US");
