/** Queries: typed here or stored on the server, now or at an earlier commit. */
import { useCallback, useMemo, useState } from "preact/hooks";
import { address, ApiError, ask, write, type BranchSummary, type Commit, type Explained, type Finding, type Mutated, type ReadReply, type StoredQuery, type Types } from "../api";
import { counted, shortId, timeOf } from "../format";
import { useAction, useLoad, useMay } from "../hooks";
import { Empty, Failure, Skeleton } from "../parts/basics";
import { Editor } from "../parts/editor";
import { completionFrom, findHeads, headOf, type Head } from "../parts/language";
import { Results } from "../parts/results";
import { goTo, linkTo, type Place } from "../route";

const PROGRAM = "omnigraph.program";

/** A first query that fits the schema, whatever it is. */
function firstProgram(types: Types): string {
  const edge = types.edges[0];
  const node = types.nodes.find((each) => each.name === edge?.source) ?? types.nodes[0];
  if (!node) return "query all() {\n  match { }\n  return { }\n}\n";
  const shown = node.properties.filter((each) => !each.type.startsWith("Vector")).slice(0, 3);
  const columns = ["$a", ...shown.map((each) => `$a.${each.name}`)].join(", ");
  const walk = edge && edge.source === node.name ? `\n    $b: ${edge.target}\n    $a ${edge.name.slice(0, 1).toLowerCase()}${edge.name.slice(1)} $b` : "";
  const more = walk ? ", $b" : "";
  return `query first() {\n  match {\n    $a: ${node.name}${walk}\n  }\n  return { ${columns}${more} }\n  limit 100\n}\n`;
}

export function QueryPage({ place }: { place: Place }) {
  const types = useLoad("types", (signal) => ask<Types>("schema/types", { signal }));
  const stored = useLoad("stored", (signal) => ask<{ queries: StoredQuery[] }>("queries", { signal }));
  const branch = place.with["branch"] ?? "main";
  if (types.error) return <Failure error={types.error} onRetry={types.reload} />;
  const queries = stored.data?.queries ?? [];
  return (
    <>
      <h1>Query</h1>
      {types.data ? <Desk key={branch} types={types.data} branch={branch} stored={queries} chosen={place.with["stored"]} /> : <Skeleton lines={8} />}
    </>
  );
}

interface Moment {
  commits: Commit[];
  at: number;
}

function useMoment(branch: string): Moment & { setAt: (at: number) => void; snapshot: string | undefined } {
  const found = useLoad(branch, (signal) => ask<{ commits: Commit[] }>(address("commits", { branch, limit: 200 }), { signal }));
  const commits = useMemo(() => [...(found.data?.commits ?? [])].reverse(), [found.data]);
  const [back, setBack] = useState(0);
  const at = Math.max(0, commits.length - 1 - back);
  const setAt = (next: number) => setBack(commits.length - 1 - next);
  return { commits, at, setAt, snapshot: back === 0 ? undefined : commits[at]?.graph_commit_id };
}

function Desk({ types, branch, stored, chosen }: { types: Types; branch: string; stored: StoredQuery[]; chosen: string | undefined }) {
  const [program, setProgram] = useState(() => sessionStorage.getItem(PROGRAM) ?? firstProgram(types));
  const [name, setName] = useState<string>();
  const [values, setValues] = useState<Record<string, string>>({});
  const moment = useMoment(branch);
  const outcome = useOutcome();
  const mayChange = useMay("change");
  const heads = useMemo(() => findHeads(program), [program]);
  const query = stored.find((each) => each.name === chosen);
  const head = query ? headOf(query) : (heads.find((each) => each.name === name) ?? heads[0]);
  const complete = useMemo(() => completionFrom(types), [types]);
  const edit = (text: string) => {
    sessionStorage.setItem(PROGRAM, text);
    setProgram(text);
  };
  const asked: Asked | undefined = head && { program, head, values, branch, snapshot: moment.snapshot, isStored: !!query };
  const lint = useCallback(async (text: string) => lintProgram(text, branch), [branch]);
  const run = () => asked && outcome.run(asked);
  return (
    <div class="desk">
      <StoredList stored={stored} chosen={chosen} branch={branch} />
      <div class="desk-main">
        {query ? (
          <section class="card">
            <h2>{query.name}</h2>
            <p class="dim">{query.description ?? (query.mutation ? "A stored mutation." : "A stored query.")}</p>
          </section>
        ) : (
          <Editor value={program} label="Query program" onChange={edit} onRun={run} lint={lint} complete={complete} />
        )}
        {!query && heads.length > 1 && (
          <label class="inline">
            Query
            <select value={head?.name ?? ""} onChange={(event) => setName(event.currentTarget.value)}>
              {heads.map((each) => (
                <option key={each.name}>{each.name}</option>
              ))}
            </select>
          </label>
        )}
        {head && <Parameters head={head} values={values} onChange={setValues} />}
        <div class="bar">
          <button type="button" class="primary" disabled={!head || outcome.isBusy || (head.isMutation && !mayChange)} onClick={run}>
            {outcome.isBusy ? "Running…" : head?.isMutation ? "Run the change" : "Run"}
          </button>
          <kbd class="wide-only">Ctrl Enter</kbd>
          {!query && (
            <button type="button" disabled={!asked || outcome.isBusy} onClick={() => asked && outcome.explain(asked)}>
              Explain
            </button>
          )}
          <span class="stretch" />
          <BranchPicker branch={branch} stored={chosen} />
        </div>
        {head && !head.isMutation && <Slider {...moment} />}
        <Failure error={outcome.error} />
        <Shown outcome={outcome} program={query ? "" : program} types={types} branch={branch} />
      </div>
    </div>
  );
}

async function lintProgram(query: string, branch: string): Promise<Finding[]> {
  if (!query.trim()) return [];
  const name = findHeads(query)[0]?.name;
  try {
    await ask<Explained>("explain", { body: { query, name, branch }, quiet: true });
  } catch (refused) {
    if (refused instanceof ApiError) return refused.findings;
  }
  return [];
}

interface Asked {
  program: string;
  head: Head;
  values: Record<string, string>;
  branch: string;
  snapshot: string | undefined;
  isStored: boolean;
}

type Outcome = { rows?: ReadReply; plan?: Explained; changed?: Mutated };

/** A field of a form as a value of the declared type. An empty field of a nullable type is null. */
function valueOf(text: string | undefined, type: string): unknown {
  if (text === undefined || text === "") return type.endsWith("?") ? null : type.startsWith("String") ? "" : undefined;
  if (/^(String|Date|DateTime|Blob)\??$/.test(type)) return text;
  if (type.startsWith("Bool")) return text === "true";
  try {
    return JSON.parse(text);
  } catch {
    return type.startsWith("[") ? text.split(",").map((each) => each.trim()) : text;
  }
}

function paramsOf(asked: Asked): Record<string, unknown> {
  return Object.fromEntries(asked.head.params.map((each) => [each.name, valueOf(asked.values[each.name], each.type)]));
}

function useOutcome() {
  const action = useAction();
  const [outcome, setOutcome] = useState<Outcome>({});
  const body = (asked: Asked) => ({
    params: paramsOf(asked),
    ...(asked.snapshot ? { snapshot: asked.snapshot } : { branch: asked.branch }),
    ...(asked.isStored ? {} : { query: asked.program, name: asked.head.name }),
  });
  const run = (asked: Asked) =>
    action.run(async () => {
      const path = asked.isStored ? `queries/${encodeURIComponent(asked.head.name)}` : "query";
      if (!asked.head.isMutation) return setOutcome({ rows: await ask<ReadReply>(path, { body: body(asked) }) });
      const change = { ...body(asked), snapshot: undefined, branch: asked.branch };
      return setOutcome({ changed: await write<Mutated>(asked.isStored ? path : "mutate", change) });
    });
  const explain = (asked: Asked) =>
    action.run(async () => setOutcome({ plan: await ask<Explained>("explain", { body: { ...body(asked), analyze: !asked.head.isMutation } }) }));
  return { ...action, ...outcome, run, explain };
}

function Shown({ outcome, program, types, branch }: { outcome: Outcome & { isBusy: boolean }; program: string; types: Types; branch: string }) {
  if (outcome.isBusy) return <Skeleton lines={5} label="The query is running" />;
  if (outcome.rows) return <Results result={outcome.rows} program={program} types={types} branch={branch} />;
  if (outcome.plan) {
    return (
      <section class="card" aria-label="Plan">
        <h2>Plan of {outcome.plan.query_name}</h2>
        <pre class="plan" tabIndex={0}>
          {outcome.plan.plan.join("\n")}
        </pre>
      </section>
    );
  }
  if (outcome.changed) {
    const { affected_nodes, affected_edges, commit } = outcome.changed;
    return (
      <section class="card" role="status">
        Changed {counted(affected_nodes, "node")} and {counted(affected_edges, "edge")}.{" "}
        {commit && <a href={linkTo("overview", { commit: commit.graph_commit_id })}>See the commit</a>}
      </section>
    );
  }
  return <Empty title="No result yet">Run a query, or ask for its plan.</Empty>;
}

function StoredList({ stored, chosen, branch }: { stored: StoredQuery[]; chosen: string | undefined; branch: string }) {
  if (stored.length === 0) return null;
  return (
    <nav class="card stored" aria-label="Stored queries">
      <h2>Stored queries</h2>
      <a href={linkTo("query", { branch })} aria-current={chosen ? undefined : "true"}>
        Your own
      </a>
      {stored.map((each) => (
        <a key={each.name} href={linkTo("query", { branch, stored: each.name })} aria-current={chosen === each.name ? "true" : undefined} title={each.description ?? ""}>
          {each.name}
          {each.mutation && <span class="pill">change</span>}
        </a>
      ))}
    </nav>
  );
}

function Parameters({ head, values, onChange }: { head: Head; values: Record<string, string>; onChange: (values: Record<string, string>) => void }) {
  if (head.params.length === 0) return null;
  return (
    <fieldset class="parameters">
      <legend>Parameters</legend>
      {head.params.map((each) => {
        const put = (text: string) => onChange({ ...values, [each.name]: text });
        return (
          <label key={each.name}>
            <span>
              {each.name} <span class="dim">{each.type}</span>
            </span>
            {each.type.startsWith("Bool") ? (
              <select value={values[each.name] ?? ""} onChange={(event) => put(event.currentTarget.value)}>
                <option value="" />
                <option>true</option>
                <option>false</option>
              </select>
            ) : (
              <input
                value={values[each.name] ?? ""}
                inputMode={/^[IUF]\d/.test(each.type) ? "decimal" : "text"}
                placeholder={/^Date\??$/.test(each.type) ? "2026-06-01" : ""}
                onInput={(event) => put(event.currentTarget.value)}
              />
            )}
          </label>
        );
      })}
    </fieldset>
  );
}

function BranchPicker({ branch, stored }: { branch: string; stored: string | undefined }) {
  const found = useLoad("names", (signal) => ask<{ branches: string[]; summaries?: BranchSummary[] | null }>("branches", { signal }));
  return (
    <label class="inline">
      Branch
      <select value={branch} onChange={(event) => goTo("query", { branch: event.currentTarget.value, stored })}>
        {[...new Set([branch, ...(found.data?.branches ?? [])])].map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
    </label>
  );
}

function Slider({ commits, at, setAt }: Moment & { setAt: (at: number) => void }) {
  const commit = commits[at];
  return (
    <label class="slider">
      <span class="dim">Time</span>
      <input
        type="range"
        min={0}
        max={Math.max(0, commits.length - 1)}
        value={at}
        disabled={commits.length < 2}
        onInput={(event) => setAt(Number(event.currentTarget.value))}
        aria-valuetext={commit ? `${commit.message ?? shortId(commit.graph_commit_id)}, ${timeOf(commit.created_at)}` : "now"}
      />
      <span class="moment">
        {!commit || at === commits.length - 1 ? "now" : `${commit.message || shortId(commit.graph_commit_id)} · ${timeOf(commit.created_at)}`}
      </span>
    </label>
  );
}
