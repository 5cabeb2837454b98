/** Conflicts one by one: base, ours and theirs, a choice for each, by mouse or by key. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Conflict, Json, MergeReply } from "../api";
import { numberText, sameJson, saveFile, valueText } from "../format";
import { useKeys } from "../hooks";

export type Choice = "ours" | "theirs" | { value: Json };
export type Choices = Record<string, Choice>;

export function keyOf(conflict: Conflict): string {
  return JSON.stringify([conflict.table_key, conflict.row_id, conflict.property, conflict.kind]);
}

/** The file that a merge takes. It names both heads, so a merge of moved branches is refused. */
export function resolutionsFile(merge: MergeReply, choices: Choices): string {
  const conflicts = (merge.merge_conflicts as unknown as Conflict[]).map((each) => ({
    table_key: each.table_key,
    row_id: each.row_id,
    property: each.property,
    kind: each.kind,
    message: each.message,
    base: each.base,
    ours: each.ours,
    theirs: each.theirs,
    resolution: choices[keyOf(each)] ?? null,
  }));
  const { source, target, source_commit_id, target_commit_id } = merge;
  return `${JSON.stringify({ format: 1, source, target, source_commit_id, target_commit_id, detect: "property", conflicts }, null, 2)}\n`;
}

/** So many conflicts are in the page at once. */
const PAGE = 100;

export function Conflicts(props: {
  merge: MergeReply;
  choices: Choices;
  onChoose: (change: (choices: Choices) => Choices) => void;
}) {
  const conflicts = props.merge.merge_conflicts as unknown as Conflict[];
  const [current, setCurrent] = useState(0);
  // Keys may come faster than the page is drawn, so each one sees what the last one did.
  const latest = useRef(current);
  latest.current = current;
  const list = useRef<HTMLOListElement>(null);
  const first = PAGE * Math.floor(current / PAGE);
  const hasMoved = useRef(false);
  const go = (at: number) => {
    hasMoved.current = true;
    latest.current = Math.max(0, Math.min(conflicts.length - 1, at));
    setCurrent(latest.current);
  };
  useEffect(() => {
    // Not at first: the page would jump to the conflicts.
    if (hasMoved.current) list.current?.children[current - first]?.scrollIntoView({ block: "nearest" });
  }, [current]);
  const set = (at: number, choice: Choice | undefined) => {
    const found = conflicts[at];
    if (!found) return;
    props.onChoose(({ [keyOf(found)]: _, ...others }) => (choice === undefined ? others : { ...others, [keyOf(found)]: choice }));
  };
  const take = (side: "ours" | "theirs") => {
    set(latest.current, side);
    go(latest.current + 1);
  };
  useKeys({
    j: () => go(latest.current + 1),
    k: () => go(latest.current - 1),
    o: () => take("ours"),
    t: () => take("theirs"),
    u: () => set(latest.current, undefined),
  });
  const decided = conflicts.filter((each) => props.choices[keyOf(each)] !== undefined).length;
  const all = (side: "ours" | "theirs") =>
    props.onChoose((choices) => Object.fromEntries(conflicts.map((each) => [keyOf(each), choices[keyOf(each)] ?? side])));
  return (
    <>
      <div class="bar">
        <strong role="status">
          {decided} of {conflicts.length} decided
        </strong>
        <progress value={decided} max={conflicts.length} aria-label="Decided conflicts" />
        <span class="stretch" />
        <button type="button" class="small" onClick={() => all("ours")}>
          Rest: ours
        </button>
        <button type="button" class="small" onClick={() => all("theirs")}>
          Rest: theirs
        </button>
        <button type="button" class="small" onClick={() => saveFile("resolutions.json", resolutionsFile(props.merge, props.choices), "application/json")}>
          Save file
        </button>
      </div>
      <p class="dim wide-only">
        <kbd>j</kbd> <kbd>k</kbd> move, <kbd>o</kbd> takes ours ({props.merge.target}), <kbd>t</kbd> takes theirs ({props.merge.source}),{" "}
        <kbd>u</kbd> undoes.
      </p>
      <ol class="conflicts" ref={list} aria-label="Conflicts">
        {conflicts.slice(first, first + PAGE).map((each, at) => (
          <ConflictCard
            key={keyOf(each)}
            conflict={each}
            merge={props.merge}
            isCurrent={first + at === current}
            choice={props.choices[keyOf(each)]}
            onFocus={() => setCurrent(first + at)}
            onChoose={(choice) => set(first + at, choice)}
          />
        ))}
      </ol>
      {conflicts.length > PAGE && (
        <div class="bar">
          <button type="button" disabled={first === 0} onClick={() => go(first - PAGE)}>
            Previous
          </button>
          <span class="dim" role="status">
            {numberText(first + 1)} to {numberText(Math.min(first + PAGE, conflicts.length))} of {numberText(conflicts.length)}
          </span>
          <button type="button" disabled={first + PAGE >= conflicts.length} onClick={() => go(first + PAGE)}>
            Next
          </button>
        </div>
      )}
    </>
  );
}

function ConflictCard(props: {
  conflict: Conflict;
  merge: MergeReply;
  isCurrent: boolean;
  choice: Choice | undefined;
  onFocus: () => void;
  onChoose: (choice: Choice | undefined) => void;
}) {
  const { conflict, choice } = props;
  const name = keyOf(conflict);
  const type = conflict.table_key.split(":")[1] ?? conflict.table_key;
  const what = `${type} ${conflict.row_id ?? ""}${conflict.property ? `, ${conflict.property}` : ""}`;
  return (
    <li class={`conflict ${props.isCurrent ? "current" : ""} ${choice ? "decided" : ""}`} onFocusIn={props.onFocus} aria-current={props.isCurrent}>
      <fieldset>
        <legend>
          <span class="type">{type}</span> <b>{conflict.row_id}</b>
          {conflict.property && <span class="name">.{conflict.property}</span>} <span class="pill warn">{conflict.kind.replaceAll("_", " ")}</span>
        </legend>
        <div class="sides">
          <div class="side-box">
            <span class="dim">base</span>
            <Sides value={conflict.base} />
          </div>
          <Side name={name} text={`ours · ${props.merge.target}`} value={conflict.ours} isTaken={choice === "ours"} what={what} onTake={() => props.onChoose("ours")} />
          <Side name={name} text={`theirs · ${props.merge.source}`} value={conflict.theirs} isTaken={choice === "theirs"} what={what} onTake={() => props.onChoose("theirs")} />
        </div>
        {conflict.kind !== "cardinality_violation" && <OwnValue conflict={conflict} choice={choice} onChoose={props.onChoose} />}
      </fieldset>
    </li>
  );
}

function Sides({ value }: { value: Json }) {
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    return (
      <dl class="image">
        {Object.entries(value).map(([name, each]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{valueText(each)}</dd>
          </div>
        ))}
      </dl>
    );
  }
  return <span class={value === null ? "value dim" : "value"}>{value === null ? "—" : valueText(value)}</span>;
}

function Side(props: { name: string; text: string; value: Json; isTaken: boolean; what: string; onTake: () => void }) {
  return (
    <label class={`side-box choice ${props.isTaken ? "taken" : ""}`}>
      <span>
        <input type="radio" name={props.name} checked={props.isTaken} onChange={props.onTake} aria-label={`${props.what}: ${props.text}`} />
        <span class="dim">{props.text}</span>
      </span>
      <Sides value={props.value} />
    </label>
  );
}

/** A value in place of either side, as JSON; a text needs no quotes. */
function OwnValue({ conflict, choice, onChoose }: { conflict: Conflict; choice: Choice | undefined; onChoose: (choice: Choice | undefined) => void }) {
  const own = typeof choice === "object" ? choice.value : undefined;
  const [isOpen, setOpen] = useState(own !== undefined);
  const [text, setText] = useState(own === undefined ? "" : valueText(own));
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (isOpen && own === undefined) field.current?.focus();
  }, [isOpen]);
  if (!isOpen) {
    return (
      <button type="button" class="link" onClick={() => setOpen(true)}>
        Another value…
      </button>
    );
  }
  const put = (given: string) => {
    setText(given);
    if (given === "") return onChoose(undefined);
    const isText = [conflict.ours, conflict.theirs, conflict.base].some((each) => typeof each === "string");
    let value: Json = given;
    try {
      const parsed = JSON.parse(given) as Json;
      if (!isText || typeof parsed === "string" || parsed === null) value = parsed;
    } catch {
      /* a text without quotes */
    }
    if (!sameJson(own, value)) onChoose({ value });
  };
  return (
    <label class="own">
      Another value
      <input ref={field} value={text} onInput={(event) => put(event.currentTarget.value)} />
    </label>
  );
}
