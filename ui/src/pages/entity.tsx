/** One node or edge: its properties with who set them, and what stands around it. */
import { useEffect, useState } from "preact/hooks";
import { address, ask, type Commit, type Json, type ReadReply, type Types } from "../api";
import { valueText } from "../format";
import { useAction, useLoad } from "../hooks";
import { findNeighbours, type Neighbour } from "../neighbours";
import { Actor, Age, Empty, Failure, Skeleton } from "../parts/basics";
import { dotKey, Picture, type Dot, type Drawing, type Line } from "../parts/picture";
import { goTo, linkTo, type Place } from "../route";

const NEIGHBOURS_MAX = 25;

export function EntityPage({ place }: { place: Place }) {
  const { type, id, branch = "main" } = place.with;
  const types = useLoad("types", (signal) => ask<Types>("schema/types", { signal }));
  return (
    <>
      <h1>Entity</h1>
      <Failure error={types.error} onRetry={types.reload} />
      {types.data && <Finder types={types.data} type={type} id={id} branch={branch} />}
      {types.data && type && id ? (
        <Found key={`${type} ${id} ${branch}`} types={types.data} type={type} id={id} branch={branch} />
      ) : (
        <Empty title="Which entity?">Give its type and its id; or follow an id on any other page.</Empty>
      )}
    </>
  );
}

function Finder({ types, type, id, branch }: { types: Types; type: string | undefined; id: string | undefined; branch: string }) {
  const [name, setName] = useState(type ?? types.nodes[0]?.name ?? "");
  const [identity, setIdentity] = useState(id ?? "");
  useEffect(() => {
    if (type) setName(type);
    if (id) setIdentity(id);
  }, [type, id]);
  const submit = (event: Event) => {
    event.preventDefault();
    goTo("entity", { type: name, id: identity, branch });
  };
  return (
    <form class="bar" onSubmit={submit}>
      <label class="inline">
        Type
        <select value={name} onChange={(event) => setName(event.currentTarget.value)}>
          {[...types.nodes, ...types.edges].map((each) => (
            <option key={each.name}>{each.name}</option>
          ))}
        </select>
      </label>
      <label class="inline grow">
        Id
        <input value={identity} onInput={(event) => setIdentity(event.currentTarget.value)} />
      </label>
      <button type="submit">Show</button>
    </form>
  );
}

interface Origin {
  property: string;
  commit: Commit | null;
}

async function readEntity(type: string, id: string, branch: string, signal: AbortSignal) {
  const [found, blame] = await Promise.all([
    ask<ReadReply>(address("entity", { type, id, branch }), { signal }),
    ask<{ properties: Origin[] }>(address("blame", { type, id, branch }), { signal }).catch(() => ({ properties: [] as Origin[] })),
  ]);
  const origins = new Map(blame.properties.map((each) => [each.property, each.commit]));
  return { row: found.rows[0] as Record<string, Json> | undefined, origins };
}

function Found({ types, type, id, branch }: { types: Types; type: string; id: string; branch: string }) {
  const found = useLoad("entity", (signal) => readEntity(type, id, branch, signal));
  const row = found.data?.row;
  if (found.error) return <Failure error={found.error} onRetry={found.reload} />;
  if (!found.data) return <Skeleton lines={6} />;
  if (!row) return <Empty title={`There is no ${type} with the id ${id} on ${branch}`} />;
  const isNode = types.nodes.some((each) => each.name === type);
  return (
    <>
      <section class="card" aria-labelledby="entity-title">
        <h2 id="entity-title">
          <span class="type">{type}</span> {id} <span class="branch">{branch}</span>
        </h2>
        <div class="blame">
          {Object.entries(row).map(([name, value]) => {
            const commit = found.data?.origins.get(name);
            return (
              <div key={name} class="blame-row">
                <span class="name">{name}</span>
                <span class={value === null ? "dim value" : "value"}>{valueText(value)}</span>
                <span class="origin">
                  {commit && (
                    <>
                      <Actor name={commit.actor_id} />
                      <a href={linkTo("overview", { commit: commit.graph_commit_id })}>
                        <Age at={commit.created_at} />
                      </a>
                    </>
                  )}
                </span>
              </div>
            );
          })}
        </div>
      </section>
      {isNode ? <Around types={types} type={type} id={id} row={row} branch={branch} /> : <Ends types={types} type={type} row={row} branch={branch} />}
    </>
  );
}

function Ends({ types, type, row, branch }: { types: Types; type: string; row: Record<string, Json>; branch: string }) {
  const edge = types.edges.find((each) => each.name === type);
  const end = (name: string, node: string | undefined, id: Json | undefined) =>
    typeof id === "string" && node ? (
      <a class="button" href={linkTo("entity", { type: node, id, branch })}>
        {name}: {id}
      </a>
    ) : null;
  return (
    <div class="bar">
      {end("from", edge?.source, row["src"] ?? row["from"])}
      {end("to", edge?.target, row["dst"] ?? row["to"])}
    </div>
  );
}

interface Circle {
  neighbours: Map<string, { type: string; id: string; around: Neighbour[] }>;
}

function drawCircle(centre: string, circle: Circle): Drawing {
  const dots = new Map<string, Dot>();
  const lines = new Map<string, Line>();
  for (const [here, each] of circle.neighbours) {
    dots.set(here, { type: each.type, id: each.id, tone: here === centre ? "chosen" : "plain" });
    for (const next of each.around) {
      const there = dotKey(next.type, next.id);
      if (!dots.has(there)) dots.set(there, { type: next.type, id: next.id, tone: there === centre ? "chosen" : "plain" });
      const [from, to] = next.isOutgoing ? [here, there] : [there, here];
      lines.set(`${next.edge}|${from}|${to}`, { type: next.edge, from, to, tone: "plain" });
    }
  }
  return { dots: [...dots.values()], lines: [...lines.values()] };
}

function Around({ types, type, id, row, branch }: { types: Types; type: string; id: string; row: Record<string, Json>; branch: string }) {
  const centre = dotKey(type, id);
  const [circle, setCircle] = useState<Circle>();
  const first = useLoad("around", (signal) => findNeighbours(types, type, row, NEIGHBOURS_MAX, { branch }, signal));
  const { error, run } = useAction();
  useEffect(() => {
    if (first.data) setCircle({ neighbours: new Map([[centre, { type, id, around: first.data }]]) });
  }, [first.data]);
  const expand = (otherType: string, otherId: string) =>
    run(async () => {
      const key = dotKey(otherType, otherId);
      if (!circle || circle.neighbours.has(key)) return goTo("entity", { type: otherType, id: otherId, branch });
      const { row: other } = await readEntity(otherType, otherId, branch, new AbortController().signal);
      const around = other ? await findNeighbours(types, otherType, other, NEIGHBOURS_MAX, { branch }) : [];
      setCircle({ neighbours: new Map([...circle.neighbours, [key, { type: otherType, id: otherId, around }]]) });
    });
  const hasKey = types.nodes.find((each) => each.name === type)?.properties.some((each) => each.is_key);
  return (
    <section class="card" aria-labelledby="around-title">
      <h2 id="around-title">Neighbours</h2>
      <Failure error={first.error ?? error} />
      {!hasKey && <Empty title="This type has no key">A query cannot single out this node, so its neighbours are not shown.</Empty>}
      {hasKey && !first.data && !first.error && <Skeleton />}
      {first.data && hasKey && <NeighbourList neighbours={first.data} branch={branch} />}
      {circle && (first.data?.length ?? 0) > 0 && (
        <>
          <p class="dim">A click on a node adds its neighbours, at most {NEIGHBOURS_MAX} for each edge type; a second click opens it.</p>
          <Picture drawing={drawCircle(centre, circle)} label={`Neighbours of ${type} ${id}`} onChoose={(...chosen) => void expand(...chosen)} />
        </>
      )}
    </section>
  );
}

function NeighbourList({ neighbours, branch }: { neighbours: Neighbour[]; branch: string }) {
  if (neighbours.length === 0) return <Empty title="No neighbours" />;
  const groups = new Map<string, Neighbour[]>();
  for (const each of neighbours) {
    const key = each.isOutgoing ? `${each.edge} →` : `← ${each.edge}`;
    groups.set(key, [...(groups.get(key) ?? []), each]);
  }
  return (
    <dl class="neighbours">
      {[...groups].map(([name, found]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {found.map((each) => (
              <a key={dotKey(each.type, each.id)} class="button small" href={linkTo("entity", { type: each.type, id: each.id, branch })}>
                {each.id}
              </a>
            ))}
            {found.length === NEIGHBOURS_MAX && <span class="dim">and maybe more</span>}
          </dd>
        </div>
      ))}
    </dl>
  );
}
