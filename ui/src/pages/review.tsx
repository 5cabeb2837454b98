/** Two branches: what one would bring to the other, what conflicts, and the merge itself. */
import { useEffect, useMemo, useState } from "preact/hooks";
import {
  address,
  ask,
  readLines,
  write,
  type BranchSummary,
  type Change,
  type DiffCounts,
  type Feed,
  type Json,
  type MergeReply,
  type Proposal,
  type Rights,
  type Types,
} from "../api";
import { counted, numberText, shortId } from "../format";
import { useAction, useKeys, useLoad, type Loaded } from "../hooks";
import { findNeighbours } from "../neighbours";
import { Actor, Age, Empty, Failure, Skeleton, Tabs } from "../parts/basics";
import { ChangesTable, OPS } from "../parts/changes";
import { Conflicts, keyOf, resolutionsFile, type Choices } from "../parts/conflicts";
import { dotKey, Picture, prepare, type Dot, type Drawing, type Line } from "../parts/picture";
import { ProposalCard, ProposalList, ProposeBox } from "../parts/proposal";
import { goTo, linkTo, type Place } from "../route";

export function ReviewPage({ place }: { place: Place }) {
  const { source, target = "main", proposal } = place.with;
  return (
    <>
      <h1>Review</h1>
      {proposal ? <Proposed key={proposal} id={proposal} /> : <Chooser source={source} target={target} />}
      {!proposal && source && source !== target && (
        <>
          <Comparison key={`${source}→${target}`} source={source} target={target} />
          <ProposeBox source={source} target={target} />
        </>
      )}
      {!proposal && !source && <ProposalList />}
    </>
  );
}

function Proposed({ id }: { id: string }) {
  const found = useLoad(id, (signal) => ask<Proposal>(`proposals/${encodeURIComponent(id)}`, { signal }));
  if (found.error) return <Failure error={found.error} onRetry={found.reload} />;
  if (!found.data) return <Skeleton lines={8} />;
  const proposal = found.data;
  return (
    <>
      <ProposalCard proposal={proposal} onChange={found.reload} />
      {proposal.state === "open" && <Comparison source={proposal.source} target={proposal.target} proposal={proposal} />}
      {proposal.merged_commit_id && (
        <p>
          Merged as{" "}
          <a class="mono" href={linkTo("overview", { commit: proposal.merged_commit_id })}>
            {proposal.merged_commit_id}
          </a>
        </p>
      )}
    </>
  );
}

function Chooser({ source, target }: { source: string | undefined; target: string }) {
  const found = useLoad("branches", (signal) => ask<{ summaries?: BranchSummary[] | null }>("branches?details=true", { signal }));
  const names = (found.data?.summaries ?? []).map((each) => each.name);
  const pick = (name: string, label: string, value: string | undefined) => (
    <label class="inline">
      {label}
      <select value={value ?? ""} onChange={(event) => goTo("review", { source, target, [name]: event.currentTarget.value })}>
        {value === undefined && <option value="">choose…</option>}
        {[...new Set([...(value ? [value] : []), ...names])].map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <div class="bar chooser">
      {pick("source", "Merge", source)}
      {pick("target", "into", target)}
      <Failure error={found.error} onRetry={found.reload} />
    </div>
  );
}

interface Compared {
  counts: DiffCounts;
  /** What a merge would do; nothing for a reader who may not merge. */
  preview: MergeReply | undefined;
  rights: Rights;
}

function useComparison(source: string, target: string): Loaded<Compared> {
  return useLoad(`${source}→${target}`, async (signal) => {
    const [counts, rights] = await Promise.all([
      ask<DiffCounts>(address("diff", { from: target, to: source, since_merge_base: true }), { signal }),
      ask<Rights>(address("rights", { branch: source, target }), { signal }),
    ]);
    const preview = rights.actions.includes("branch_merge")
      ? await ask<MergeReply>("branches/merge", { body: { source, target, dry_run: true, detect: "property" }, signal })
      : undefined;
    return { counts, preview, rights };
  });
}

type View = "changes" | "picture" | "conflicts";

function Comparison({ source, target, proposal }: { source: string; target: string; proposal?: Proposal }) {
  const found = useComparison(source, target);
  const [chosen, setView] = useState<View>();
  const [choices, setChoices] = useState<Choices>({});
  if (found.error) return <Failure error={found.error} onRetry={found.reload} />;
  if (!found.data) return <Skeleton lines={8} label="Comparing the branches" />;
  const { counts, preview } = found.data;
  const conflicts = preview?.merge_conflicts.length ?? 0;
  const view = chosen ?? (conflicts ? "conflicts" : "changes");
  const total = counts.types.reduce((sum, each) => sum + each.inserted + each.updated + each.deleted, 0);
  const tabs: [View, string][] = [
    ["changes", `Changes ${numberText(total)}`],
    ["picture", "Picture"],
    ...(preview ? ([["conflicts", `Conflicts ${numberText(conflicts)}`]] as [View, string][]) : []),
  ];
  return (
    <>
      {preview ? (
        <MergeBox preview={preview} choices={choices} onAgain={found.reload} proposal={proposal} />
      ) : (
        <p class="card dim">Your token may not merge into {target}.</p>
      )}
      <Tabs label="Views of the comparison" tabs={tabs} current={view} onChoose={setView} />
      <section class="card" role="tabpanel" aria-label={view}>
        {view === "conflicts" ? (
          preview && conflicts ? (
            <Conflicts merge={preview} choices={choices} onChoose={setChoices} />
          ) : (
            <Empty title="No conflicts">Both branches fit together.</Empty>
          )
        ) : (
          <Differences counts={counts} source={source} target={target} view={view} />
        )}
      </section>
    </>
  );
}

function MergeBox({ preview, choices, onAgain, proposal }: { preview: MergeReply; choices: Choices; onAgain: () => void; proposal: Proposal | undefined }) {
  const { isBusy, error, run } = useAction();
  const [message, setMessage] = useState("");
  const [done, setDone] = useState<MergeReply>();
  const conflicts = preview.merge_conflicts as unknown as Parameters<typeof keyOf>[0][];
  const left = conflicts.filter((each) => choices[keyOf(each)] === undefined).length;
  const isReady = left === 0 && !done && !isBusy && preview.outcome !== "already_up_to_date";
  const merge = () =>
    isReady &&
    run(async () => {
      const decided = { detect: "property", resolutions: resolutionsFile(preview, choices) };
      const bound = { if_source: preview.source_commit_id, if_target: preview.target_commit_id };
      const [path, body] = proposal
        ? [`proposals/${encodeURIComponent(proposal.id)}/merge`, { ...decided, ...bound }]
        : ["branches/merge", { ...decided, source: preview.source, target: preview.target }];
      setDone(await write<MergeReply>(path, body, message));
    });
  useKeys({ m: () => void merge() });
  if (done) return <Merged done={done} />;
  return (
    <section class="card merge" aria-label="Merge">
      <div class="heads dim">
        <span>
          {preview.source} <code>{shortId(preview.source_commit_id)}</code> → {preview.target} <code>{shortId(preview.target_commit_id)}</code>
        </span>
        <span>The merge is bound to these two heads.</span>
      </div>
      <div class="bar">
        <label class="grow">
          Message
          <input value={message} placeholder={proposal?.title ?? `merge ${preview.source}`} onInput={(event) => setMessage(event.currentTarget.value)} />
        </label>
        <button type="button" class="primary" disabled={!isReady} onClick={() => void merge()}>
          {isBusy ? "Merging…" : left ? `${counted(left, "conflict")} to decide` : `Merge into ${preview.target}`}
        </button>
      </div>
      <Failure error={error} onRetry={error?.code === "head_moved" ? onAgain : undefined} />
    </section>
  );
}

function Merged({ done }: { done: MergeReply }) {
  return (
    <section class="card merged" role="status">
      <strong>
        {done.source} is merged into {done.target}
      </strong>
      {done.commit ? (
        <p>
          Commit{" "}
          <a class="mono" href={linkTo("overview", { commit: done.commit.graph_commit_id })}>
            {done.commit.graph_commit_id}
          </a>{" "}
          by <Actor name={done.commit.actor_id} />, <Age at={done.commit.created_at} />
        </p>
      ) : (
        <p>{done.outcome.replaceAll("_", " ")}</p>
      )}
    </section>
  );
}

const FEED_PAGES_MAX = 30;

/** The actors of each changed entity, from the feed of the branch. */
async function readActors(branch: string, after: string | null, signal: AbortSignal): Promise<Map<string, Set<string>>> {
  const found = new Map<string, Set<string>>();
  let cursor: string | undefined;
  for (let page = 0; page < FEED_PAGES_MAX; page++) {
    const start = cursor ? undefined : after ? `after:${after}` : "beginning";
    const feed = await ask<Feed>(address("changes", { branch, start, cursor, limit: 8192, commits: 512 }), { signal, quiet: true });
    for (const block of feed.blocks) {
      for (const change of block.changes) {
        const key = dotKey(change.type.name, change.id);
        found.set(key, (found.get(key) ?? new Set()).add(block.cause.actor_id ?? ""));
      }
    }
    cursor = feed.cursor ?? feed.next_page_token ?? undefined;
    if (feed.caught_up !== false || !cursor) break;
  }
  return found;
}

function useChanges(source: string, target: string): { changes: Change[]; isWhole: boolean; error: Loaded<unknown>["error"] } {
  const [changes, setChanges] = useState<Change[]>([]);
  const path = address("diff", { from: target, to: source, since_merge_base: true });
  const found = useLoad(path, async (signal) => {
    const all: Change[] = [];
    let shownAt = 0;
    for await (const batch of readLines<Change>(path, signal)) {
      all.push(...batch);
      if (performance.now() - shownAt > 200) {
        setChanges([...all]); // the list grows as changes arrive
        shownAt = performance.now();
      }
    }
    setChanges(all);
    return all.length;
  });
  return { changes, isWhole: found.data !== undefined, error: found.error };
}

interface Filter {
  type: string;
  op: string;
  actor: string;
}

function Differences({ counts, source, target, view }: { counts: DiffCounts; source: string; target: string; view: View }) {
  const { changes, isWhole, error } = useChanges(source, target);
  useEffect(prepare, []);
  const base = counts.from.graph_commit_id;
  const actors = useLoad(`${source}@${base}`, (signal) => readActors(source, base, signal));
  const [filter, setFilter] = useState<Filter>({ type: "", op: "", actor: "" });
  const shown = useMemo(
    () =>
      changes.filter(
        (each) =>
          (!filter.type || each.type.name === filter.type) &&
          (!filter.op || each.op === filter.op) &&
          (!filter.actor || actors.data?.get(dotKey(each.type.name, each.id))?.has(filter.actor)),
      ),
    [changes, filter, actors.data],
  );
  const names = [...new Set([...(actors.data?.values() ?? [])].flatMap((each) => [...each]))].filter(Boolean).sort();
  const choose = (name: keyof Filter, label: string, options: [string, string][]) => (
    <label class="inline">
      {label}
      <select value={filter[name]} onChange={(event) => setFilter({ ...filter, [name]: event.currentTarget.value })}>
        <option value="">all</option>
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <>
      <div class="bar">
        {choose("type", "Type", counts.types.map((each) => [each.name, each.name]))}
        {choose("op", "Change", Object.entries(OPS))}
        {choose("actor", "Actor", names.map((each) => [each, each]))}
        <span class="stretch" />
        <span class="dim" role="status">
          {counted(shown.length, "change")}
          {!isWhole && !error && " so far…"}
        </span>
      </div>
      <Failure error={error} />
      {shown.length === 0 && isWhole && <Empty title="No changes">The branch is as its target.</Empty>}
      {shown.length > 0 && view === "changes" && <ChangesTable changes={shown} branch={source} />}
      {shown.length > 0 && view === "picture" && isWhole && <ChangePicture changes={shown} source={source} />}
    </>
  );
}

const CONTEXT_MAX = 40;

/** The changed entities, and one hop around the first of them. */
async function drawChanges(changes: Change[], source: string, signal: AbortSignal): Promise<Drawing> {
  const types = await ask<Types>("schema/types", { signal });
  const dots = new Map<string, Dot>();
  const lines = new Map<string, Line>();
  const put = (type: string, id: string, tone: Dot["tone"]) => {
    const key = dotKey(type, id);
    if (!dots.has(key) || tone !== "faded") dots.set(key, { type, id, tone });
    return key;
  };
  for (const each of changes.filter((one) => one.kind === "node")) put(each.type.name, each.id, each.op as Dot["tone"]);
  for (const each of changes.filter((one) => one.kind === "edge")) {
    const edge = types.edges.find((one) => one.name === each.type.name);
    const ends = each.endpoints ?? each.after?.endpoints ?? each.before?.endpoints;
    if (!edge || !ends) continue;
    const from = put(edge.source, ends.from, "faded");
    const to = put(edge.target, ends.to, "faded");
    lines.set(`${edge.name}|${from}|${to}`, { type: edge.name, from, to, tone: each.op as Line["tone"] });
  }
  const nearby = changes.filter((each) => each.kind === "node" && each.op !== "delete").slice(0, CONTEXT_MAX);
  const found = await Promise.all(
    nearby.map((each) =>
      findNeighbours(types, each.type.name, (each.after?.properties ?? {}) as Record<string, Json>, 6, { branch: source }, signal),
    ),
  );
  nearby.forEach((each, at) => {
    const here = dotKey(each.type.name, each.id);
    for (const next of found[at] ?? []) {
      const there = put(next.type, next.id, "faded");
      const [from, to] = next.isOutgoing ? [here, there] : [there, here];
      const key = `${next.edge}|${from}|${to}`;
      if (!lines.has(key)) lines.set(key, { type: next.edge, from, to, tone: "faded" });
    }
  });
  return { dots: [...dots.values()], lines: [...lines.values()] };
}

function ChangePicture({ changes, source }: { changes: Change[]; source: string }) {
  const [drawing, setDrawing] = useState<Drawing>();
  const key = changes.map((each) => each.id).join("\u0000");
  const found = useLoad(key, (signal) => drawChanges(changes, source, signal));
  useEffect(() => found.data && setDrawing(found.data), [found.data]);
  return (
    <>
      <p class="legend">
        <i class="op insert" /> added <i class="op update" /> changed <i class="op delete" /> removed <i class="op faded" /> context
      </p>
      <Failure error={found.error} onRetry={found.reload} />
      {drawing ? (
        <Picture
          drawing={drawing}
          label={`Picture of ${counted(changes.length, "change")}`}
          onChoose={(type, id) => goTo("entity", { type, id, branch: source })}
        />
      ) : (
        <Skeleton />
      )}
    </>
  );
}
