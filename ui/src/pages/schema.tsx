/** Types and edges as a diagram, and the plan of another schema. */
import { useState } from "preact/hooks";
import { ask, ApiError, type EdgeType, type NodeType, type SchemaPlan, type Types } from "../api";
import { useAction, useLoad } from "../hooks";
import { Empty, Failure, Skeleton, Tabs } from "../parts/basics";
import { Editor } from "../parts/editor";
import { dotKey, Picture, type Drawing } from "../parts/picture";

const PROPERTIES_DRAWN = 8;

/** The name of a type, then its properties; `*` marks the key. */
function boxText(type: NodeType): string {
  const shown = type.properties.slice(0, PROPERTIES_DRAWN).map((each) => `${each.is_key ? "* " : ""}${each.name}: ${each.type}`);
  const more = type.properties.length - shown.length;
  return [type.name, ...shown, ...(more > 0 ? [`and ${more} more`] : [])].join("\n");
}

function draw(types: Types): Drawing {
  return {
    dots: types.nodes.map((each) => ({ type: "type", id: each.name, tone: "plain" as const, text: boxText(each), isBox: true })),
    lines: types.edges.map((each) => ({ type: each.name, from: dotKey("type", each.source), to: dotKey("type", each.target), tone: "plain" as const })),
  };
}

type View = "diagram" | "types" | "plan";

export function SchemaPage() {
  const found = useLoad("schema", async (signal) => {
    const [types, text] = await Promise.all([
      ask<Types>("schema/types", { signal }),
      ask<{ schema_source: string }>("schema", { signal }),
    ]);
    return { types, source: text.schema_source };
  });
  const [view, setView] = useState<View>("diagram");
  if (found.error) return <Failure error={found.error} onRetry={found.reload} />;
  return (
    <>
      <h1>Schema</h1>
      <Tabs label="Views of the schema" tabs={[["diagram", "Diagram"], ["types", "Types"], ["plan", "Plan a change"]]} current={view} onChoose={setView} />
      {!found.data && <Skeleton lines={8} />}
      {found.data && view === "diagram" && (
        <section class="card">
          <Picture drawing={draw(found.data.types)} label="Diagram of the types" />
        </section>
      )}
      {found.data && view === "types" && (
        <div class="type-cards">
          {found.data.types.nodes.map((each) => (
            <TypeCard key={each.name} type={each} about="node" />
          ))}
          {found.data.types.edges.map((each) => (
            <TypeCard key={each.name} type={each} about={`${each.source} → ${each.target}`} />
          ))}
        </div>
      )}
      {found.data && view === "plan" && <Planner source={found.data.source} />}
    </>
  );
}

function TypeCard({ type, about }: { type: NodeType | EdgeType; about: string }) {
  return (
    <section class="card">
      <h2>
        {type.name} <span class="dim">{about}</span>
      </h2>
      {type.description && <p>{type.description}</p>}
      <dl class="properties">
        {type.properties.map((each) => (
          <div key={each.name}>
            <dt>
              {each.name} {each.is_key && <span class="pill">key</span>}
            </dt>
            <dd class="mono dim">{each.type}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Planner({ source }: { source: string }) {
  const [text, setText] = useState(source);
  const [plan, setPlan] = useState<SchemaPlan>();
  const { isBusy, error, run } = useAction();
  const makePlan = () =>
    run(async () => {
      setPlan(undefined);
      setPlan(await ask<SchemaPlan>("schema/plan", { body: { schema_source: text } }));
    });
  const lint = async (program: string) => {
    try {
      await ask("schema/plan", { body: { schema_source: program }, quiet: true });
    } catch (refused) {
      if (refused instanceof ApiError) return refused.findings;
    }
    return [];
  };
  return (
    <section class="card">
      <p class="dim">Edit or paste a schema. The plan says what would change; it changes nothing.</p>
      <Editor value={text} label="Schema" onChange={setText} onRun={() => void makePlan()} lint={lint} />
      <div class="bar">
        <button type="button" class="primary" disabled={isBusy} onClick={() => void makePlan()}>
          {isBusy ? "Planning…" : "Show the plan"}
        </button>
      </div>
      <Failure error={error} />
      {plan && <Plan plan={plan} />}
    </section>
  );
}

function Plan({ plan }: { plan: SchemaPlan }) {
  if (plan.steps.length === 0) return <Empty title="No change">The graph has this schema already.</Empty>;
  const words = (step: Record<string, unknown>) =>
    Object.entries(step).filter(([name]) => name !== "kind").map(([name, value]) => `${name.replaceAll("_", " ")}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(" · ");
  return (
    <>
      <p role="status">
        <span class={`pill ${plan.supported ? "good" : "warn"}`}>{plan.supported ? "can be applied" : "cannot be applied"}</span>
      </p>
      <ol class="steps">
        {plan.steps.map((each, at) => (
          <li key={at} class={each["kind"] === "unsupported_change" ? "bad" : ""}>
            <b>{String(each["kind"]).replaceAll("_", " ")}</b> <span class="dim">{words(each)}</span>
          </li>
        ))}
      </ol>
      {plan.effects.length > 0 && (
        <ul class="steps">
          {plan.effects.map((each, at) => (
            <li key={at}>
              <span class="mono">{String(each["table_key"])}</span> {String(each["effect"])}, {String(each["row_count"])} rows
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
