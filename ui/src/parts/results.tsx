/** Rows of a query: as a table, as a picture of its nodes, as bars. */
import { useState } from "preact/hooks";
import type { ReadReply, Types } from "../api";
import { counted, csvOf, numberText, saveFile, valueText } from "../format";
import { idOf } from "../neighbours";
import { goTo, linkTo } from "../route";
import { Empty, Tabs, VirtualList } from "./basics";
import { findPattern } from "./language";
import { dotKey, Picture, type Dot, type Drawing, type Line } from "./picture";

type Row = Record<string, unknown>;
type Shape = "table" | "picture" | "chart";
type NodeColumns = Map<string, string>;

function columnsOf(result: ReadReply): string[] {
  return result.columns ?? Object.keys(result.rows[0] ?? {});
}

/** The columns that hold nodes, with their types. */
function nodeColumnsOf(columns: string[], program: string, types: Types): NodeColumns {
  const { typeOf } = findPattern(program, types);
  const known = columns.flatMap((each): [string, string][] => {
    const type = typeOf.get(each);
    return type ? [[each, type]] : [];
  });
  return new Map(known);
}

function draw(rows: Row[], nodes: NodeColumns, program: string, types: Types): Drawing {
  const dots = new Map<string, Dot>();
  const lines = new Map<string, Line>();
  const { steps } = findPattern(program, types);
  for (const row of rows) {
    const keys = new Map<string, string>();
    for (const [column, type] of nodes) {
      const id = idOf(row[column]);
      if (id === null) continue;
      const key = dotKey(type, id);
      keys.set(column, key);
      dots.set(key, { type, id, tone: "plain" });
    }
    for (const step of steps) {
      const [from, to] = [keys.get(step.from), keys.get(step.to)];
      if (from && to) lines.set(`${step.edge}|${from}|${to}`, { type: step.edge, from, to, tone: "plain" });
    }
  }
  return { dots: [...dots.values()], lines: [...lines.values()] };
}

function isChart(columns: string[], rows: Row[]): boolean {
  const number = columns[1];
  return columns.length === 2 && number !== undefined && rows.length > 0 && rows.every((each) => typeof each[number] === "number");
}

export function Results({ result, program, types, branch }: { result: ReadReply; program: string; types: Types; branch?: string | undefined }) {
  const columns = columnsOf(result);
  const rows = result.rows as Row[];
  const nodes = nodeColumnsOf(columns, program, types);
  const [chosen, setShape] = useState<Shape>("table");
  const shapes: [Shape, string][] = [["table", "Table"]];
  if (nodes.size > 0) shapes.push(["picture", "Picture"]);
  if (isChart(columns, rows)) shapes.push(["chart", "Chart"]);
  const shape = shapes.some((each) => each[0] === chosen) ? chosen : "table";
  return (
    <section class="card" aria-label="Result">
      <div class="bar">
        <Tabs label="Shape of the result" tabs={shapes} current={shape} onChoose={setShape} />
        <span class="stretch" />
        <span class="dim" role="status">
          {counted(result.row_count, "row")}
        </span>
        <button type="button" class="small" onClick={() => saveFile(`${result.query_name}.csv`, csvOf(columns, rows), "text/csv")}>
          CSV
        </button>
        <button type="button" class="small" onClick={() => saveFile(`${result.query_name}.jsonl`, rows.map((each) => `${JSON.stringify(each)}\n`).join(""), "application/x-ndjson")}>
          JSONL
        </button>
      </div>
      {rows.length === 0 && <Empty title="No rows" />}
      {rows.length > 0 && shape === "table" && <RowTable columns={columns} rows={rows} nodes={nodes} branch={branch} />}
      {shape === "picture" && (
        <Picture
          drawing={draw(rows, nodes, program, types)}
          label={`Picture of ${counted(rows.length, "row")}`}
          onChoose={(type, id) => goTo("entity", { type, id, branch })}
        />
      )}
      {shape === "chart" && <Chart columns={columns} rows={rows} />}
    </section>
  );
}

function RowTable({ columns, rows, nodes, branch }: { columns: string[]; rows: Row[]; nodes: NodeColumns; branch: string | undefined }) {
  const grid = { gridTemplateColumns: `repeat(${columns.length}, minmax(110px, 1fr))`, minWidth: `${columns.length * 120}px` };
  const cell = (row: Row, column: string) => {
    const value = row[column];
    const type = nodes.get(column);
    const id = idOf(value);
    if (type && id !== null) return <a href={linkTo("entity", { type, id, branch })}>{id}</a>;
    return <span class={value === null ? "dim" : typeof value === "number" ? "number" : ""}>{valueText(value)}</span>;
  };
  return (
    <div class="sheet" tabIndex={0} role="region" aria-label="Rows of the result">
      <div class="sheet-head" style={grid}>
        {columns.map((each) => (
          <b key={each}>{each}</b>
        ))}
      </div>
      <VirtualList
        label="Rows"
        count={rows.length}
        rowHeight={32}
        height={480}
        row={(at) => (
          <div class="sheet-row" style={grid}>
            {columns.map((each) => (
              <span key={each} class="cell" title={valueText(rows[at]?.[each])}>
                {cell(rows[at] as Row, each)}
              </span>
            ))}
          </div>
        )}
      />
    </div>
  );
}

const BARS_MAX = 40;

function Chart({ columns, rows }: { columns: string[]; rows: Row[] }) {
  const [name = "", number = ""] = columns;
  const shown = rows.slice(0, BARS_MAX);
  const most = Math.max(...shown.map((each) => Math.abs(each[number] as number)), 1e-9);
  return (
    <figure class="chart">
      <figcaption class="dim">
        {number} by {name}
        {rows.length > BARS_MAX && `, the first ${BARS_MAX} of ${numberText(rows.length)}`}
      </figcaption>
      <ul>
        {shown.map((each, at) => (
          <li key={at}>
            <span class="bar-name">{valueText(each[name])}</span>
            <span class="bar-track">
              <i style={{ width: `${(100 * Math.abs(each[number] as number)) / most}%` }} />
            </span>
            <b class="number">{numberText(each[number] as number)}</b>
          </li>
        ))}
      </ul>
    </figure>
  );
}
