/** The routes of the server, with the types of its OpenAPI document. */
import type { components } from "./openapi";

type Schemas = components["schemas"];
export type Commit = Schemas["CommitReply"];
export type BranchSummary = Schemas["BranchSummaryReply"];
export type Change = Schemas["ChangeEntry"];
export type CommitChanges = Schemas["CommitChangesReply"];
export type DiffCounts = Schemas["DiffReply"];
export type Explained = Schemas["ExplainReply"];
export type Feed = Schemas["FeedReply"];
export type Job = Schemas["JobReply"];
export type MergeReply = Schemas["MergeReply"];
export type Mutated = Schemas["MutationReply"];
export type Proposal = Schemas["ProposalReply"];
export type ProposalEntry = Schemas["ProposalEntry"];
export type ReadReply = Schemas["ReadReply"];
export type Rights = Schemas["RightsReply"];
export type SchemaPlan = Schemas["SchemaPlanReply"];
export type Snapshot = Schemas["SnapshotReply"];
export type StoredQuery = Schemas["StoredQueryEntry"];
export type Types = Schemas["TypesReply"];
export type NodeType = Schemas["NodeTypeEntry"];
export type EdgeType = Schemas["EdgeTypeEntry"];

/** A value as JSON holds it. */
export type Json = string | number | boolean | null | Json[] | { [name: string]: Json };

export interface Finding {
  code: string;
  message: string;
  line: number;
  column: number;
  rendered: string;
}

export interface Conflict {
  table_key: string;
  row_id: string | null;
  property: string | null;
  kind: string;
  message: string;
  base: Json;
  ours: Json;
  theirs: Json;
}

interface Problem {
  error: string;
  cause?: { code: string; facts: { findings?: Finding[] } } | null;
  merge_conflicts?: Conflict[] | null;
  retryable?: boolean | null;
  request_id?: string | null;
}

/** An answer that is an error, in the words of the server. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.error);
  }

  get code(): string {
    return this.problem.cause?.code ?? "";
  }

  get findings(): Finding[] {
    return this.problem.cause?.facts.findings ?? [];
  }
}

const TOKEN = "omnigraph.token";
const GRAPH = "omnigraph.graph";
const root = new URL("..", document.baseURI);

/** Who asks, and which graph: kept until the tab is closed. */
export const session = {
  get token(): string {
    return sessionStorage.getItem(TOKEN) ?? "";
  },
  get graph(): string {
    return sessionStorage.getItem(GRAPH) ?? "";
  },
  keep(token: string, graph: string): void {
    sessionStorage.setItem(TOKEN, token);
    sessionStorage.setItem(GRAPH, graph);
  },
  forget(): void {
    sessionStorage.removeItem(TOKEN);
    sessionStorage.removeItem(GRAPH);
  },
};

type Listener = (underWay: number) => void;
const listeners = new Set<Listener>();
let underWay = 0;

/** Calls back with the number of requests under way; returns how to stop. */
export function watchRequests(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function count(step: number): void {
  underWay += step;
  for (const each of listeners) each(underWay);
}

export interface Asked {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** Without a spinner: a request that no one waits for. */
  quiet?: boolean;
}

async function problemOf(answer: Response): Promise<ApiError> {
  const text = await answer.text();
  try {
    return new ApiError(answer.status, JSON.parse(text) as Problem);
  } catch {
    const said = text || `${answer.status} ${answer.statusText}`.trim();
    return new ApiError(answer.status, { error: said });
  }
}

async function send(path: string, asked: Asked): Promise<Response> {
  const headers: Record<string, string> = { ...asked.headers };
  if (session.token) headers["Authorization"] = `Bearer ${session.token}`;
  if (asked.body !== undefined) headers["Content-Type"] = "application/json";
  const step = asked.quiet ? 0 : 1;
  count(step);
  try {
    const answer = await fetch(new URL(path, root), {
      method: asked.method ?? (asked.body === undefined ? "GET" : "POST"),
      headers,
      body: asked.body === undefined ? null : JSON.stringify(asked.body),
      signal: asked.signal ?? null,
      credentials: "omit",
    });
    if (!answer.ok) throw await problemOf(answer);
    return answer;
  } catch (error) {
    if (error instanceof ApiError || (error as Error).name === "AbortError") throw error;
    throw new ApiError(0, { error: "the server does not answer; is it still running?" });
  } finally {
    count(-step);
  }
}

/** An address of the server itself. */
export async function askServer<T>(path: string, asked: Asked = {}): Promise<T> {
  return (await (await send(path, asked)).json()) as T;
}

/** The graphs of the server; none if the reader may not list them. */
export async function findGraphs(): Promise<string[]> {
  try {
    const found = await askServer<{ graphs: { graph_id: string }[] }>("graphs", { quiet: true });
    return found.graphs.map((each) => each.graph_id);
  } catch {
    return [];
  }
}

function ofGraph(path: string): string {
  return session.graph ? `graphs/${encodeURIComponent(session.graph)}/${path}` : path;
}

/** An address of the graph. */
export function ask<T>(path: string, asked: Asked = {}): Promise<T> {
  return askServer<T>(ofGraph(path), asked);
}

/** A write: it carries a key, so a repetition changes nothing. */
export function write<T>(path: string, body: unknown, message?: string): Promise<T> {
  const headers: Record<string, string> = { "Idempotency-Key": crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` };
  if (message) headers["Omnigraph-Message"] = encodeURIComponent(message);
  return ask<T>(path, { body, headers });
}

/** JSON lines as they arrive, in batches. */
export async function* readLines<T>(path: string, signal?: AbortSignal): AsyncGenerator<T[]> {
  const answer = await send(ofGraph(path), { headers: { Accept: "application/x-ndjson" }, signal });
  const reader = (answer.body as ReadableStream<Uint8Array>)
    .pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
    .getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : (lines.pop() ?? "");
    const found = lines.filter((each) => each !== "").map((each) => JSON.parse(each) as T);
    if (found.length > 0) yield found;
    if (done) return;
  }
}

/** A path with its query string; parameters that are undefined are left out. */
export function address(path: string, parameters: Record<string, string | number | boolean | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}
