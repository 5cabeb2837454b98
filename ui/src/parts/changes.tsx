/** Changes of rows: a table of before and after, property by property. */
import { useMemo } from "preact/hooks";
import type { Change, Json } from "../api";
import { sameJson, valueText } from "../format";
import { linkTo } from "../route";
import { VirtualList } from "./basics";

export const OPS: Record<string, string> = { insert: "added", update: "changed", delete: "removed" };

type Line =
  | { kind: "entity"; change: Change }
  | { kind: "property"; change: Change; name: string; before: Json | undefined; after: Json | undefined };

/** One line for each change, then one for each property that differs. */
export function linesOf(changes: Change[]): Line[] {
  return changes.flatMap((change): Line[] => {
    const before = (change.before?.properties ?? {}) as Record<string, Json>;
    const after = (change.after?.properties ?? {}) as Record<string, Json>;
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    const shown = names.filter((name) => !sameJson(before[name], after[name]));
    return [
      { kind: "entity", change },
      ...shown.map((name): Line => ({ kind: "property", change, name, before: before[name], after: after[name] })),
    ];
  });
}

const ROW = 30;

export function ChangesTable({ changes, branch, height = 520 }: { changes: Change[]; branch?: string; height?: number }) {
  const lines = useMemo(() => linesOf(changes), [changes]);
  return (
    <VirtualList
      label="Changes"
      count={lines.length}
      rowHeight={ROW}
      height={height}
      row={(at) => <ChangeLine line={lines[at] as Line} branch={branch} />}
    />
  );
}

function ChangeLine({ line, branch }: { line: Line; branch: string | undefined }) {
  const { change } = line;
  if (line.kind === "entity") {
    const ends = change.endpoints ?? change.after?.endpoints ?? change.before?.endpoints;
    return (
      <div class={`change ${change.op}`}>
        <span class={`op ${change.op}`}>{OPS[change.op] ?? change.op}</span>
        <span class="type">{change.type.name}</span>
        <a href={linkTo("entity", { type: change.type.name, id: change.id, branch })}>{change.id}</a>
        {ends && (
          <span class="dim ends">
            {ends.from} → {ends.to}
          </span>
        )}
      </div>
    );
  }
  return (
    <div class="change property">
      <span class="name">{line.name}</span>
      {change.op !== "insert" && <del title={valueText(line.before)}>{valueText(line.before)}</del>}
      {change.op === "update" && <span aria-hidden="true">→</span>}
      {change.op !== "delete" && <ins title={valueText(line.after)}>{valueText(line.after)}</ins>}
    </div>
  );
}
