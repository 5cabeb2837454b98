import { useState } from "preact/hooks";
import { ApiError, askServer, session } from "../api";
import { Failure, Logo } from "../parts/basics";

/** The graphs of the server, if the reader may list them. */
async function findGraphs(): Promise<string[]> {
  try {
    const found = await askServer<{ graphs: { graph_id: string }[] }>("graphs");
    return found.graphs.map((each) => each.graph_id);
  } catch {
    return [];
  }
}

function explain(error: ApiError | undefined): ApiError | undefined {
  if (error?.status !== 404) return error;
  return new ApiError(404, { error: "This server has several graphs, or none of that name. Name one." });
}

export function Login({ error, onEnter }: { error: ApiError | undefined; onEnter: () => Promise<void> }) {
  const [token, setToken] = useState(session.token);
  const [graph, setGraph] = useState(session.graph);
  const [isBusy, setBusy] = useState(false);
  const [graphs, setGraphs] = useState<string[]>([]);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    session.keep(token.trim(), graph.trim());
    if (!graph.trim()) {
      const found = await findGraphs();
      setGraphs(found);
      if (found[0]) session.keep(token.trim(), found[0]);
    }
    await onEnter();
    setBusy(false);
  };
  return (
    <main class="alone">
      <form class="card login" onSubmit={submit}>
        <Logo />
        <h1>OmniGraph</h1>
        <p class="dim">The token of this server. It stays in this tab, until you close it.</p>
        <label>
          Token
          <input type="password" autocomplete="off" value={token} onInput={(event) => setToken(event.currentTarget.value)} />
        </label>
        <label>
          Graph <span class="dim">(only if the server has several)</span>
          <input list="graphs" value={graph} onInput={(event) => setGraph(event.currentTarget.value)} />
          <datalist id="graphs">
            {graphs.map((each) => (
              <option key={each} value={each} />
            ))}
          </datalist>
        </label>
        <Failure error={explain(error)} />
        <button type="submit" class="primary" disabled={isBusy}>
          {isBusy ? "Opening…" : "Open the graph"}
        </button>
      </form>
    </main>
  );
}
