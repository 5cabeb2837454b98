/** Branches, the history of all of them, and the changes of one commit. */
import { useMemo, useState } from "preact/hooks";
import { address, ask, type BranchSummary, type Change, type Commit, type CommitChanges, type Snapshot } from "../api";
import { counted, numberText, shortId, timeOf } from "../format";
import { useLoad, useMay } from "../hooks";
import { Actor, Age, Drawer, Empty, Failure, Skeleton } from "../parts/basics";
import { ChangesTable } from "../parts/changes";
import { findLanes, type LaneRow } from "../parts/commit_graph";
import { goTo, linkTo, type Place } from "../route";

const BRANCHES_SHOWN = 12;
const COMMITS_SHOWN = 150;

interface Heads {
  summaries: BranchSummary[];
  snapshot: Snapshot;
}

async function readHeads(signal: AbortSignal): Promise<Heads> {
  const [listed, snapshot] = await Promise.all([
    ask<{ summaries?: BranchSummary[] | null }>("branches?details=true", { signal }),
    ask<Snapshot>("snapshot", { signal }),
  ]);
  return { summaries: listed.summaries ?? [], snapshot };
}

async function readCommits(summaries: BranchSummary[], signal: AbortSignal): Promise<Commit[]> {
  const pages = await Promise.all(
    summaries.slice(0, BRANCHES_SHOWN).map((each) => {
      const path = address("commits", { branch: each.name, merged: true, limit: COMMITS_SHOWN });
      return ask<{ commits: Commit[] }>(path, { signal });
    }),
  );
  const byId = new Map(pages.flatMap((page) => page.commits).map((each) => [each.graph_commit_id, each]));
  return [...byId.values()].sort((a, b) => b.created_at - a.created_at || (a.graph_commit_id < b.graph_commit_id ? 1 : -1));
}

export function OverviewPage({ place }: { place: Place }) {
  const found = useLoad("heads", readHeads);
  const chosen = place.with["commit"];
  return (
    <>
      <h1>Overview</h1>
      <Failure error={found.error} onRetry={found.reload} />
      {found.data ? <Shown heads={found.data} /> : !found.error && <Skeleton lines={8} />}
      {chosen && <CommitDrawer id={chosen} />}
    </>
  );
}

/** The branches at once; the commits, which take longer, below them. */
function Shown({ heads }: { heads: Heads }) {
  const { summaries } = heads;
  const newest = summaries.map((each) => each.head?.graph_commit_id).join();
  const found = useLoad(newest, (signal) => readCommits(summaries, signal));
  const count = (kind: string) =>
    heads.snapshot.datasets.filter((each) => each.entity_kind === kind).reduce((sum, each) => sum + each.entity_count, 0);
  return (
    <>
      <dl class="stats">
        <Stat name="Nodes" value={numberText(count("node"))} />
        <Stat name="Edges" value={numberText(count("edge"))} />
        <Stat name="Branches" value={numberText(summaries.length)} />
        <Stat name="Commits shown" value={found.data ? numberText(found.data.length) : "…"} />
      </dl>
      <section class="card" aria-labelledby="branches-title">
        <h2 id="branches-title">Branches</h2>
        <div class="rows">
          {summaries.map((each) => (
            <BranchRow key={each.name} branch={each} />
          ))}
        </div>
      </section>
      <section class="card" aria-labelledby="commits-title">
        <h2 id="commits-title">Commits</h2>
        <Failure error={found.error} onRetry={found.reload} />
        {!found.data && !found.error && <Skeleton lines={8} label="Loading the commits" />}
        {found.data && (found.data.length ? <CommitList commits={found.data} summaries={summaries} /> : <Empty title="No commits yet" />)}
      </section>
    </>
  );
}

function Stat({ name, value }: { name: string; value: string }) {
  return (
    <div class="stat">
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function BranchRow({ branch }: { branch: BranchSummary }) {
  const mayMerge = useMay("branch_merge");
  const { name, head } = branch;
  return (
    <div class="branch-row">
      <span class="branch">{name}</span>
      <span class="message">{head ? head.message || <span class="dim">no message</span> : <span class="dim">empty</span>}</span>
      <span class="who">{head && <Actor name={head.actor_id} />}</span>
      <span class="age">{head && <Age at={head.created_at} />}</span>
      <span class="drift">
        {name === "main" ? <span class="pill">default</span> : <Drift ahead={branch.ahead} behind={branch.behind} />}
      </span>
      <span class="actions">
        {name !== "main" && (
          <a class="button small" href={linkTo("review", { source: name, target: "main" })}>
            {mayMerge ? "Review" : "Compare"}
          </a>
        )}
        <a class="button small" href={linkTo("query", { branch: name })} aria-label={`Query ${name}`}>
          Query
        </a>
      </span>
    </div>
  );
}

function Drift({ ahead, behind }: { ahead: number | null; behind: number | null }) {
  return (
    <span class="pill" title={`${ahead ?? "?"} ahead of main, ${behind ?? "?"} behind`}>
      <b class="up">↑{ahead ?? "?"}</b> <b class="down">↓{behind ?? "?"}</b>
    </span>
  );
}

const ROW = 46;
const LANE = 18;

function CommitList({ commits, summaries }: { commits: Commit[]; summaries: BranchSummary[] }) {
  const rows = useMemo(() => findLanes(commits), [commits]);
  const [shown, setShown] = useState(100);
  const width = LANE * (1 + Math.max(...rows.map((each) => Math.max(each.lane, ...each.links.map((link) => Math.max(link.from, link.to))))));
  const heads = useMemo(() => {
    const byCommit = new Map<string, string[]>();
    for (const each of summaries) {
      const id = each.head?.graph_commit_id;
      if (id) byCommit.set(id, [...(byCommit.get(id) ?? []), each.name]);
    }
    return byCommit;
  }, [summaries]);
  return (
    <>
      <ol class="commits" style={{ "--lanes": `${width + 6}px` }}>
        {commits.slice(0, shown).map((commit, at) => (
          <li key={commit.graph_commit_id}>
            <Lanes row={rows[at] as LaneRow} width={width} />
            <CommitLine commit={commit} heads={heads.get(commit.graph_commit_id) ?? []} />
          </li>
        ))}
      </ol>
      {shown < commits.length && (
        <button type="button" onClick={() => setShown(shown + 200)}>
          Show older commits
        </button>
      )}
    </>
  );
}

function Lanes({ row, width }: { row: LaneRow; width: number }) {
  const x = (lane: number) => LANE / 2 + lane * LANE;
  return (
    <svg class="lanes" width={width} height={ROW} aria-hidden="true">
      {row.links.map((link, at) => (
        <path
          key={at}
          class={`lane hue-${Math.max(link.from, link.to) % 8}`}
          d={`M${x(link.from)} ${ROW / 2}C${x(link.from)} ${ROW} ${x(link.to)} ${ROW} ${x(link.to)} ${ROW * 1.5}`}
        />
      ))}
      <circle class={`hue-${row.lane % 8}`} cx={x(row.lane)} cy={ROW / 2} r="5" />
    </svg>
  );
}

function CommitLine({ commit, heads }: { commit: Commit; heads: string[] }) {
  const rows = commit.row_counts;
  return (
    <a class="commit" href={linkTo("overview", { commit: commit.graph_commit_id })}>
      <span class="message">
        {heads.map((each) => (
          <span key={each} class="branch">
            {each}
          </span>
        ))}
        {commit.merged_parent_commit_id && <span class="pill">merge</span>}
        {commit.message || <span class="dim">{shortId(commit.graph_commit_id)}</span>}
      </span>
      <span class="who">
        <Actor name={commit.actor_id} />
      </span>
      <span class="counts">
        {rows && (
          <>
            {rows.inserted > 0 && <b class="up">+{numberText(rows.inserted)}</b>}
            {rows.updated > 0 && <b class="mid">~{numberText(rows.updated)}</b>}
            {rows.deleted > 0 && <b class="down">−{numberText(rows.deleted)}</b>}
          </>
        )}
      </span>
      <Age at={commit.created_at} />
    </a>
  );
}

const PAGES_MAX = 40;

async function readChanges(id: string, signal: AbortSignal): Promise<{ commit: Commit; changes: Change[]; isWhole: boolean }> {
  const commit = await ask<Commit>(`commits/${encodeURIComponent(id)}`, { signal });
  const changes: Change[] = [];
  let token: string | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    const path = address(`commits/${encodeURIComponent(id)}/changes`, { limit: 1000, page_token: token });
    const found = await ask<CommitChanges>(path, { signal });
    changes.push(...found.changes);
    token = found.next_page_token ?? undefined;
    if (!token) break;
  }
  return { commit, changes, isWhole: !token };
}

function CommitDrawer({ id }: { id: string }) {
  const found = useLoad(id, (signal) => readChanges(id, signal));
  const commit = found.data?.commit;
  return (
    <Drawer key={id} title={commit?.message || `Commit ${shortId(id)}`} onClose={() => goTo("overview")}>
      <Failure error={found.error} onRetry={found.reload} />
      {!found.data && !found.error && <Skeleton />}
      {commit && found.data && (
        <>
          <dl class="facts">
            <dt>Commit</dt>
            <dd class="mono">{commit.graph_commit_id}</dd>
            <dt>Actor</dt>
            <dd>
              <Actor name={commit.actor_id} />
            </dd>
            <dt>Time</dt>
            <dd>{timeOf(commit.created_at)}</dd>
            <dt>Parents</dt>
            <dd class="mono">
              {[commit.parent_commit_id, commit.merged_parent_commit_id].filter(Boolean).map((each) => (
                <a key={each} href={linkTo("overview", { commit: each as string })}>
                  {shortId(each as string)}{" "}
                </a>
              ))}
            </dd>
          </dl>
          <h3>
            {counted(found.data.changes.length, "change")}
            {!found.data.isWhole && " (the first of more)"}
          </h3>
          {found.data.changes.length > 0 ? <ChangesTable changes={found.data.changes} /> : <Empty title="No row changed" />}
        </>
      )}
    </Drawer>
  );
}
