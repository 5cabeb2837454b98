/** Proposals: the list, and the one under review with its approvals, checks and comments. */
import { useContext, useState } from "preact/hooks";
import { ask, write, type Proposal, type ProposalEntry } from "../api";
import { counted, shortId } from "../format";
import { RightsContext, useAction, useLoad, useMay } from "../hooks";
import { goTo, linkTo } from "../route";
import { Actor, Age, Empty, Failure, Skeleton } from "./basics";

const TONES: Record<string, string> = { open: "busy", merged: "good", closed: "" };

export function ProposalList() {
  const found = useLoad("proposals", (signal) => ask<{ proposals: ProposalEntry[] }>("proposals", { signal }));
  const ordered = [...(found.data?.proposals ?? [])].sort((a, b) => Number(b.state === "open") - Number(a.state === "open") || b.created_at - a.created_at);
  return (
    <section class="card proposal-list" aria-labelledby="proposals-title">
      <h2 id="proposals-title">Proposals</h2>
      <Failure error={found.error} onRetry={found.reload} />
      {!found.data && !found.error && <Skeleton />}
      {found.data && ordered.length === 0 && <Empty title="No proposals">Choose a branch above, and propose to merge it.</Empty>}
      {ordered.map((each) => (
        <a key={each.id} class="row" href={linkTo("review", { proposal: each.id })}>
          <span class={`pill ${TONES[each.state] ?? ""}`}>{each.state}</span>
          <b>{each.title}</b>
          <span>
            <span class="branch">{each.source}</span>→ <span class="branch">{each.target}</span>
          </span>
          <Actor name={each.author} />
          <Age at={each.created_at} />
        </a>
      ))}
    </section>
  );
}

function path(proposal: Proposal, action: string): string {
  return `proposals/${encodeURIComponent(proposal.id)}/${action}`;
}

export function ProposalCard({ proposal, onChange }: { proposal: Proposal; onChange: () => void }) {
  const { isBusy, error, run } = useAction();
  const mayApprove = useMay("approve");
  const mayPropose = useMay("propose");
  const send = (action: string, body: unknown = {}) =>
    run(async () => {
      await write(path(proposal, action), body);
      onChange();
    });
  const isOpen = proposal.state === "open";
  const actor = useContext(RightsContext).actor_id;
  const hasApproved = proposal.approvals.some((each) => each.actor_id === actor && each.source_commit_id === proposal.source_commit_id);
  return (
    <section class="card" aria-label="Proposal">
      <div class="bar">
        <span class={`pill ${TONES[proposal.state] ?? ""}`}>{proposal.state}</span>
        <h2 class="plain">{proposal.title}</h2>
        <span class="stretch" />
        <Actor name={proposal.author} />
        <Age at={proposal.created_at} />
      </div>
      {proposal.text && <p class="text">{proposal.text}</p>}
      <Approvals proposal={proposal} />
      <Checks proposal={proposal} />
      {isOpen && (
        <div class="bar">
          {mayApprove && !hasApproved && (
            <button type="button" disabled={isBusy} onClick={() => void send("approvals", { if_source: proposal.source_commit_id })}>
              Approve
            </button>
          )}
          {proposal.required_checks.length > 0 && (
            <button type="button" disabled={isBusy} onClick={() => void send("checks")}>
              Run the checks
            </button>
          )}
          {mayPropose && (
            <button type="button" disabled={isBusy} onClick={() => void send("close")}>
              Close
            </button>
          )}
        </div>
      )}
      <Failure error={error} />
      <Comments proposal={proposal} mayComment={mayPropose || mayApprove} isBusy={isBusy} onSend={(text) => send("comments", { text })} />
    </section>
  );
}

function Approvals({ proposal }: { proposal: Proposal }) {
  return (
    <ul class="checks" aria-label="Approvals">
      {proposal.approvals.map((each, at) => (
        <li key={at}>
          <span class={`pill ${each.counts ? "good" : "warn"}`}>{each.counts ? "approved" : "out of date"}</span>
          <Actor name={each.actor_id} /> <span class="dim">at {shortId(each.source_commit_id)}</span> <Age at={each.created_at} />
        </li>
      ))}
      {proposal.missing_approvals > 0 && (
        <li>
          <span class="pill warn">{counted(proposal.missing_approvals, "approval")} missing</span>
        </li>
      )}
    </ul>
  );
}

function Checks({ proposal }: { proposal: Proposal }) {
  return (
    <ul class="checks" aria-label="Checks">
      {proposal.required_checks.map((name) => {
        const run = proposal.checks.find((each) => each.name === name && each.is_current);
        const said = run ? (run.passed ? "passed" : "failed") : "not run";
        return (
          <li key={name}>
            <span class={`pill ${run ? (run.passed ? "good" : "bad") : ""}`}>{said}</span>
            <span class="name">{name}</span>
            {run && !run.passed && <span class="dim">{run.reason ?? counted(run.row_count ?? 0, "row")}</span>}
          </li>
        );
      })}
    </ul>
  );
}

function Comments(props: { proposal: Proposal; mayComment: boolean; isBusy: boolean; onSend: (text: string) => Promise<void> }) {
  const [text, setText] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    if (text.trim()) void props.onSend(text).then(() => setText(""));
  };
  return (
    <>
      <ol class="comments" aria-label="Comments">
        {props.proposal.comments.map((each, at) => (
          <li key={at}>
            <Actor name={each.actor_id} /> <Age at={each.created_at} />
            <p>{each.text}</p>
          </li>
        ))}
      </ol>
      {props.mayComment && props.proposal.state === "open" && (
        <form class="bar" onSubmit={submit}>
          <label class="grow">
            Comment
            <input value={text} onInput={(event) => setText(event.currentTarget.value)} />
          </label>
          <button type="submit" disabled={props.isBusy || !text.trim()}>
            Send
          </button>
        </form>
      )}
    </>
  );
}

export function ProposeBox({ source, target }: { source: string; target: string }) {
  const mayPropose = useMay("propose");
  const [title, setTitle] = useState("");
  const { isBusy, error, run } = useAction();
  if (!mayPropose) return null;
  const submit = (event: Event) => {
    event.preventDefault();
    void run(async () => {
      const opened = await write<Proposal>("proposals", { title, source, target });
      goTo("review", { proposal: opened.id });
    });
  };
  return (
    <form class="card" onSubmit={submit} aria-label="Propose">
      <div class="bar flat">
        <label class="grow">
          Title of a proposal
          <input value={title} onInput={(event) => setTitle(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={isBusy || !title.trim()}>
          Propose
        </button>
      </div>
      <Failure error={error} />
    </form>
  );
}
