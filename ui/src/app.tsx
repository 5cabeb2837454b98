/** The frame of all pages: who is asking, where one is, and the keys that work everywhere. */
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, ask, findGraphs, session, watchRequests, type Rights } from "./api";
import { Failure, Logo, Skeleton } from "./parts/basics";
import { RightsContext, useKeys, useMay } from "./hooks";
import { EntityPage } from "./pages/entity";
import { JobsPage } from "./pages/jobs";
import { Login } from "./pages/login";
import { OverviewPage } from "./pages/overview";
import { QueryPage } from "./pages/query";
import { ReviewPage } from "./pages/review";
import { SchemaPage } from "./pages/schema";
import { goTo, linkTo, usePlace, type Place } from "./route";

const PAGES: { name: string; text: string; key: string; icon: string }[] = [
  { name: "overview", text: "Overview", key: "o", icon: "M4 4v16M4 8c0 6 12 2 12 8v4M4 4h.01M16 20h.01" },
  { name: "review", text: "Review", key: "r", icon: "M4 12l5 5L20 6" },
  { name: "query", text: "Query", key: "q", icon: "M5 5l6 7-6 7M13 19h7" },
  { name: "schema", text: "Schema", key: "s", icon: "M4 4h6v6H4zM14 14h6v6h-6zM10 7h7v7" },
  { name: "entity", text: "Entity", key: "e", icon: "M12 4a4 4 0 100 8 4 4 0 000-8zM5 20c0-4 3-6 7-6s7 2 7 6" },
  { name: "jobs", text: "Jobs", key: "j", icon: "M12 4v8l5 3M12 3a9 9 0 100 18 9 9 0 000-18z" },
];

export function App() {
  const [rights, setRights] = useState<Rights>();
  const [error, setError] = useState<ApiError>();
  const [needsLogin, setNeedsLogin] = useState(false);
  const enter = useCallback(async () => {
    setError(undefined);
    try {
      const found = await ask<Rights>("rights");
      session.keep(session.token, found.graph_id);
      setRights(found);
      setNeedsLogin(false);
    } catch (refused) {
      const known = refused as ApiError;
      setNeedsLogin(known.status === 401 || known.status === 404);
      setError(session.token || known.status !== 401 ? known : undefined);
    }
  }, []);
  useEffect(() => void enter(), [enter]);
  const leave = () => {
    session.forget();
    setRights(undefined);
    setNeedsLogin(true);
  };
  if (needsLogin) return <Login error={error} onEnter={enter} />;
  if (!rights) {
    return <main class="alone">{error ? <Failure error={error} onRetry={enter} /> : <Skeleton label="Opening the graph" />}</main>;
  }
  return (
    <RightsContext.Provider value={rights}>
      <Frame key={rights.graph_id} rights={rights} onLeave={leave} onEnter={enter} />
    </RightsContext.Provider>
  );
}

function Frame({ rights, onLeave, onEnter }: { rights: Rights; onLeave: () => void; onEnter: () => Promise<void> }) {
  const place = usePlace();
  const main = useRef<HTMLElement>(null);
  const [showsKeys, setShowsKeys] = useState(false);
  useShortcuts(() => setShowsKeys((each) => !each));
  useEffect(() => {
    const title = PAGES.find((each) => each.name === place.page)?.text ?? "OmniGraph";
    document.title = `${title} · ${rights.graph_id}`;
  }, [place.page, rights.graph_id]);
  return (
    <div class="frame">
      <Progress />
      <a class="skip" href="#content" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href={linkTo("overview")}>
          <Logo />
          <span>OmniGraph</span>
        </a>
        <GraphName current={rights.graph_id} onEnter={onEnter} />
        <span class="stretch" />
        <ThemeButton />
        <button type="button" class="ghost wide-only" onClick={() => setShowsKeys(true)} aria-label="Keyboard shortcuts">
          <kbd>?</kbd>
        </button>
        {session.token ? (
          <button type="button" class="ghost" onClick={onLeave}>
            <span class="wide-only">{rights.actor_id} · </span>Log out
          </button>
        ) : (
          <span class="pill">open</span>
        )}
      </header>
      <Navigation place={place} />
      <main ref={main} id="content" tabIndex={-1}>
        <CurrentPage place={place} />
      </main>
      {showsKeys && <Shortcuts onClose={() => setShowsKeys(false)} />}
    </div>
  );
}

/** The name of the graph; a choice if the reader may list several graphs. */
function GraphName({ current, onEnter }: { current: string; onEnter: () => Promise<void> }) {
  const [graphs, setGraphs] = useState<string[]>([]);
  const mayList = useMay("graph_list");
  useEffect(() => void (mayList && findGraphs().then(setGraphs)), [mayList]);
  if (graphs.length < 2) return <span class="graph-name">{current}</span>;
  const choose = (graph: string) => {
    session.keep(session.token, graph);
    goTo("overview");
    void onEnter();
  };
  return (
    <select class="graph-name" aria-label="Graph" value={current} onChange={(event) => choose(event.currentTarget.value)}>
      {[...new Set([current, ...graphs])].map((each) => (
        <option key={each}>{each}</option>
      ))}
    </select>
  );
}

function CurrentPage({ place }: { place: Place }): ComponentChildren {
  switch (place.page) {
    case "review":
      return <ReviewPage place={place} />;
    case "query":
      return <QueryPage place={place} />;
    case "schema":
      return <SchemaPage />;
    case "jobs":
      return <JobsPage />;
    case "entity":
      return <EntityPage place={place} />;
    default:
      return <OverviewPage place={place} />;
  }
}

function Navigation({ place }: { place: Place }) {
  return (
    <nav class="side" aria-label="Pages">
      {PAGES.map((each) => (
        <a key={each.name} href={linkTo(each.name)} aria-current={place.page === each.name ? "page" : undefined}>
          <svg viewBox="0 0 24 24" aria-hidden="true">
            <path d={each.icon} />
          </svg>
          <span>{each.text}</span>
        </a>
      ))}
    </nav>
  );
}

/** `g` and then a letter opens a page. */
function useShortcuts(toggleHelp: () => void): void {
  const armedUntil = useRef(0);
  useKeys({ "?": toggleHelp });
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const field = (event.target as HTMLElement).closest?.("input, textarea, select, .editor");
      if (field || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "g") {
        armedUntil.current = Date.now() + 1500;
      } else if (Date.now() < armedUntil.current) {
        const page = PAGES.find((each) => each.key === event.key);
        armedUntil.current = 0;
        if (page) {
          goTo(page.name);
          event.stopImmediatePropagation();
        }
      }
    };
    addEventListener("keydown", press, { capture: true });
    return () => removeEventListener("keydown", press, { capture: true });
  }, []);
}

const KEYS: [string, string][] = [
  ["g then o, r, q, s, e, j", "Overview, Review, Query, Schema, Entity, Jobs"],
  ["j, k", "next and previous conflict"],
  ["o, t", "take ours, take theirs"],
  ["u", "undo the choice"],
  ["m", "merge, once every conflict is decided"],
  ["Ctrl Enter", "run the query"],
  ["arrow keys, Enter", "in a picture: go to an entity, open or expand it"],
  ["?", "these keys"],
];

function Shortcuts({ onClose }: { onClose: () => void }) {
  const panel = useRef<HTMLDialogElement>(null);
  useEffect(() => panel.current?.showModal(), []);
  return (
    <dialog ref={panel} class="help" aria-label="Keyboard shortcuts" onClose={onClose}>
      <h2>Keyboard</h2>
      <dl>
        {KEYS.map(([key, text]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => panel.current?.close()}>
        Close
      </button>
    </dialog>
  );
}

/** A bar that moves while requests are under way; it takes no space. */
function Progress() {
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    return watchRequests((underWay) => {
      clearTimeout(timer);
      timer = setTimeout(() => setBusy(underWay > 0), underWay > 0 ? 120 : 0);
    });
  }, []);
  return (
    <div class={`progress ${isBusy ? "busy" : ""}`} role="status" aria-live="polite">
      <span class="unseen">{isBusy ? "The server is working" : ""}</span>
    </div>
  );
}

type Theme = "dark" | "light";

function ThemeButton() {
  const preferred: Theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const [theme, setTheme] = useState<Theme>((localStorage.getItem("omnigraph.theme") as Theme | null) ?? preferred);
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    dispatchEvent(new Event("themechange"));
  }, [theme]);
  const toggle = () => {
    const next = theme === "dark" ? "light" : "dark";
    localStorage.setItem("omnigraph.theme", next);
    setTheme(next);
  };
  return (
    <button type="button" class="ghost" onClick={toggle} aria-label={theme === "dark" ? "Light colours" : "Dark colours"}>
      {theme === "dark" ? "☀" : "☾"}
    </button>
  );
}
