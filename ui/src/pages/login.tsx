import { useEffect, useState } from "preact/hooks";
import { ApiError, findGraphs, session } from "../api";
import { Failure, Logo } from "../parts/basics";

function explain(error: ApiError | undefined): ApiError | undefined {
  if (error?.status !== 404) return error;
  return new ApiError(404, { error: "This server has several graphs, or none of that name. Choose one." });
}

export function Login({ error, onEnter }: { error: ApiError | undefined; onEnter: () => Promise<void> }) {
  const [token, setToken] = useState(session.token);
  const [graph, setGraph] = useState(session.graph);
  const [isBusy, setBusy] = useState(false);
  const [graphs, setGraphs] = useState<string[]>([]);
  useEffect(() => {
    // A server without tokens lists its graphs at once; any other does so after the token is given.
    if (error?.status === 404) void findGraphs().then(setGraphs);
  }, [error]);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    session.keep(token.trim(), graph.trim());
    if (!graph.trim()) {
      const found = await findGraphs();
      setGraphs(found);
      if (found.length === 1 && found[0]) session.keep(token.trim(), found[0]);
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
        {graphs.length > 0 ? (
          <label>
            Graph
            <select value={graph} onChange={(event) => setGraph(event.currentTarget.value)}>
              <option value="">choose…</option>
              {graphs.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
        ) : (
          <label>
            Graph <span class="dim">(only if the server has several)</span>
            <input value={graph} onInput={(event) => setGraph(event.currentTarget.value)} />
          </label>
        )}
        <Failure error={explain(error)} />
        <button type="submit" class="primary" disabled={isBusy}>
          {isBusy ? "Opening…" : "Open the graph"}
        </button>
      </form>
    </main>
  );
}
