/** Jobs of the server: what runs, how far it is, and how to stop it. */
import { useEffect } from "preact/hooks";
import { ask, write, type Job } from "../api";
import { useAction, useLoad } from "../hooks";
import { Actor, Age, Empty, Failure, Skeleton } from "../parts/basics";

const POLL_MS = 1500;
const ACTIVE = new Set(["queued", "running"]);

export function JobsPage() {
  const found = useLoad("jobs", (signal) => ask<{ jobs: Job[] }>("jobs", { signal, quiet: true }));
  const isActive = found.data?.jobs.some((each) => ACTIVE.has(each.state)) ?? false;
  useEffect(() => {
    const timer = setInterval(found.reload, isActive ? POLL_MS : 4 * POLL_MS);
    return () => clearInterval(timer);
  }, [isActive, found.reload]);
  const jobs = [...(found.data?.jobs ?? [])].sort((a, b) => b.created_at - a.created_at);
  return (
    <>
      <h1>Jobs</h1>
      <Failure error={found.error} onRetry={found.reload} />
      {!found.data && !found.error && <Skeleton />}
      {found.data && jobs.length === 0 && <Empty title="No jobs">Loads, merges and optimizes that were sent with «Prefer: respond-async» are shown here.</Empty>}
      {jobs.map((each) => (
        <JobCard key={each.job_id} job={each} onChange={found.reload} />
      ))}
    </>
  );
}

function progressOf(job: Job): { done: number; total: number } | undefined {
  const { done, total } = (job.progress ?? {}) as { done?: unknown; total?: unknown };
  return typeof done === "number" && typeof total === "number" && total > 0 ? { done, total } : undefined;
}

function JobCard({ job, onChange }: { job: Job; onChange: () => void }) {
  const { isBusy, error, run } = useAction();
  const progress = progressOf(job);
  const cancel = () =>
    run(async () => {
      await write(`jobs/${encodeURIComponent(job.job_id)}/cancel`, {});
      onChange();
    });
  const tone = { succeeded: "good", failed: "bad", running: "busy" }[job.state] ?? "";
  return (
    <section class="card job" aria-label={`${job.kind} ${job.state}`}>
      <div class="bar">
        <strong>{job.kind}</strong>
        <span class={`pill ${tone}`}>{job.state}</span>
        {job.phase && <span class="dim">{job.phase}</span>}
        <span class="stretch" />
        <Actor name={job.actor_id} />
        <Age at={job.created_at} />
        {ACTIVE.has(job.state) && (
          <button type="button" class="small" disabled={isBusy} onClick={() => void cancel()}>
            Cancel
          </button>
        )}
      </div>
      {job.state === "running" && (progress ? <progress value={progress.done} max={progress.total} aria-label="Progress" /> : <progress aria-label="Progress" />)}
      <span class="dim mono">{job.job_id}</span>
      {job.error && <pre class="failure">{String(job.error["error"] ?? JSON.stringify(job.error))}</pre>}
      <Failure error={error} />
    </section>
  );
}
