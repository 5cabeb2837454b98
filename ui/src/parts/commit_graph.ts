/** The lanes of a history: which column each commit is in, and which lines join the rows. */
import type { Commit } from "../api";

export interface Link {
  from: number;
  to: number;
}

export interface LaneRow {
  lane: number;
  /** Lines from this row down to the next one. */
  links: Link[];
}

/** `commits` are ordered from the newest to the oldest. */
export function findLanes(commits: Commit[]): LaneRow[] {
  const known = new Set(commits.map((each) => each.graph_commit_id));
  const waiting: (string | null)[] = [];
  const free = (): number => {
    const at = waiting.indexOf(null);
    return at < 0 ? waiting.push(null) - 1 : at;
  };
  return commits.map((commit, at) => {
    const id = commit.graph_commit_id;
    let lane = waiting.indexOf(id);
    if (lane < 0) lane = free();
    waiting.forEach((each, other) => {
      if (each === id) waiting[other] = null;
    });
    const starts = new Map<number, number>();
    waiting.forEach((each, other) => each !== null && starts.set(other, other));
    const first = commit.parent_commit_id;
    waiting[lane] = first && known.has(first) ? first : null;
    if (waiting[lane] !== null) starts.set(lane, lane);
    const second = commit.merged_parent_commit_id;
    const links: Link[] = [];
    if (second && known.has(second)) {
      const found = waiting.indexOf(second);
      const into = found < 0 ? free() : found;
      waiting[into] = second;
      if (found < 0) starts.set(into, lane);
      else links.push({ from: lane, to: into });
    }
    const next = commits[at + 1]?.graph_commit_id;
    const nextLane = waiting.indexOf(next ?? "");
    const joins = (other: number) => (waiting[other] === next && nextLane >= 0 ? nextLane : other);
    for (const [end, start] of starts) links.push({ from: start, to: joins(end) });
    return { lane, links: links.map((each) => ({ from: each.from, to: joins(each.to) })) };
  });
}
