/** A picture of nodes and edges. The graph library is a file of its own, loaded when a picture is shown. */
import type { Core, ElementDefinition, NodeCollection, NodeSingular, StylesheetJson } from "cytoscape";
import { useEffect, useRef, useState } from "preact/hooks";
import { Empty, Skeleton } from "./basics";

export type Tone = "plain" | "insert" | "update" | "delete" | "faded" | "chosen";

export interface Dot {
  type: string;
  id: string;
  tone: Tone;
  text?: string;
  /** A box shows lines of text inside, for example the properties of a type. */
  isBox?: boolean;
}

export interface Line {
  type: string;
  from: string;
  to: string;
  tone: Tone;
}

export interface Drawing {
  dots: Dot[];
  lines: Line[];
}

export const DOTS_MAX = 500;

export function dotKey(type: string, id: string): string {
  return `${type}\u0000${id}`;
}

/** No more dots than a reader can tell apart, and only lines whose ends are drawn. */
export function trim(drawing: Drawing): Drawing {
  const dots = drawing.dots.slice(0, DOTS_MAX);
  const known = new Set(dots.map((each) => dotKey(each.type, each.id)));
  return { dots, lines: drawing.lines.filter((each) => known.has(each.from) && known.has(each.to)) };
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const HUES = 8;

/** The types of a drawing, each with the number of its colour. */
function huesOf(drawing: Drawing): Map<string, number> {
  const names = [...new Set(drawing.dots.filter((each) => each.tone === "plain" && !each.isBox).map((each) => each.type))];
  return new Map(names.sort().map((each, at) => [each, at % HUES]));
}

function makeStyle(): StylesheetJson {
  const toned = (["insert", "update", "delete"] as const).flatMap((tone) => [
    { selector: `node.${tone}`, style: { "background-color": colour(`--${tone}`) } },
    { selector: `edge.${tone}`, style: { "line-color": colour(`--${tone}`), "target-arrow-color": colour(`--${tone}`), width: 2.5 } },
  ]);
  const hues = Array.from({ length: HUES }, (_, at) => ({ selector: `node.hue-${at}`, style: { "background-color": colour(`--hue-${at}`) } }));
  return [
    {
      selector: "node",
      style: {
        label: "data(text)",
        color: colour("--text"),
        "font-size": 11,
        "font-family": "system-ui, sans-serif",
        "text-valign": "bottom",
        "text-margin-y": 4,
        "text-max-width": "120px",
        "text-wrap": "ellipsis",
        "min-zoomed-font-size": 6,
        width: 26,
        height: 26,
        "background-color": colour("--accent"),
        "border-width": 2,
        "border-color": colour("--surface"),
      },
    },
    {
      selector: "node.box",
      style: {
        shape: "round-rectangle",
        width: "label",
        height: "label",
        padding: "10px",
        "text-valign": "center",
        "text-margin-y": 0,
        "text-wrap": "wrap",
        "text-max-width": "220px",
        "text-justification": "left",
        "line-height": 1.35,
        "font-size": 13,
        "background-color": colour("--surface"),
        "border-color": colour("--accent"),
      },
    },
    {
      selector: "edge",
      style: {
        width: 1.5,
        "line-color": colour("--line-strong"),
        "target-arrow-color": colour("--line-strong"),
        "target-arrow-shape": "triangle",
        "arrow-scale": 0.8,
        "curve-style": "bezier",
        label: "data(text)",
        "font-size": 10.5,
        color: colour("--dim"),
        "text-rotation": "autorotate",
        "text-background-color": colour("--field"),
        "text-background-opacity": 1,
        "text-background-padding": "2px",
      },
    },
    { selector: "edge:loop", style: { "control-point-step-size": 130, "loop-direction": "-45deg", "loop-sweep": "50deg" } },
    ...hues,
    ...toned,
    { selector: ".faded", style: { opacity: 0.45, "background-color": colour("--dim") } },
    { selector: "node.chosen", style: { width: 38, height: 38, "border-color": colour("--accent"), "border-width": 4, "background-color": colour("--surface") } },
    { selector: "node:selected", style: { "border-color": colour("--text"), "border-width": 4 } },
  ] as StylesheetJson;
}

function elementsOf(drawing: Drawing): ElementDefinition[] {
  const hues = huesOf(drawing);
  const dots = drawing.dots.map((each) => ({
    group: "nodes" as const,
    data: { id: dotKey(each.type, each.id), text: each.text ?? each.id, type: each.type, identity: each.id },
    classes: each.isBox ? "box" : each.tone === "plain" ? `hue-${hues.get(each.type)}` : each.tone,
  }));
  const lines = drawing.lines.map((each) => ({
    group: "edges" as const,
    data: { id: `${each.type}|${each.from}|${each.to}`, source: each.from, target: each.to, text: drawing.lines.length > 80 ? "" : each.type },
    classes: each.tone,
  }));
  return [...dots, ...lines];
}

const FORCED_MAX = 120;

/** A force layout is slow and unreadable for hundreds of dots; circles and rows are neither. */
function layoutOf(drawing: Drawing) {
  if (drawing.dots.length > FORCED_MAX) {
    const isSparse = drawing.lines.length < drawing.dots.length / 4;
    if (isSparse) return { name: "grid" as const, animate: false, avoidOverlapPadding: 26 };
    return { name: "concentric" as const, animate: false, minNodeSpacing: 8 };
  }
  const distance = drawing.dots.some((each) => each.isBox) ? 130 : 90;
  return { name: "cose" as const, animate: false, randomize: true, idealEdgeLength: () => distance, nodeRepulsion: () => 100 * distance, padding: 30 };
}

const RADIUS = 100;
const APART = 44;

/** New nodes stand in a circle around the node that brought them, which leaves a gap towards its older neighbour. */
function placeAround(core: Core, added: NodeCollection, known: Set<string>): void {
  const isKnown = (each: NodeSingular) => known.has(each.id());
  const groups = new Map<string, NodeSingular[]>();
  added.forEach((node) => {
    const owner = node.neighborhood().nodes().filter(isKnown).first().id() ?? "";
    groups.set(owner, [...(groups.get(owner) ?? []), node]);
  });
  for (const [owner, nodes] of groups) {
    const middle = core.getElementById(owner);
    const centre = middle.nonempty() ? middle.position() : { x: 0, y: 0 };
    const older = middle.neighborhood().nodes().filter(isKnown).toArray().map((each) => (each as NodeSingular).position())[0];
    const start = older ? Math.atan2(older.y - centre.y, older.x - centre.x) : 0;
    const radius = Math.max(RADIUS, ((nodes.length + 1) * APART) / (2 * Math.PI));
    nodes.forEach((node, at) => {
      const angle = start + ((at + 1) * 2 * Math.PI) / (nodes.length + 1);
      node.position({ x: centre.x + radius * Math.cos(angle), y: centre.y + radius * Math.sin(angle) });
    });
  }
}

/** Bring the picture to this drawing. Nodes that were drawn before keep their place. */
function redraw(core: Core, drawing: Drawing): void {
  const isFirst = core.nodes().empty();
  const wanted = elementsOf(drawing);
  const ids = new Set(wanted.map((each) => each.data.id));
  core.elements().filter((each) => !ids.has(each.id())).remove();
  const known = core.nodes().map((each) => each.id());
  core.startBatch();
  if (!isFirst) for (const each of wanted) core.getElementById(each.data.id as string).classes(each.classes as string);
  const added = core.add(isFirst ? wanted : wanted.filter((each) => core.getElementById(each.data.id as string).empty()));
  core.endBatch();
  if (known.length === 0 || drawing.dots.length > FORCED_MAX) core.layout(layoutOf(drawing)).run();
  else if (added.nodes().nonempty()) placeAround(core, added.nodes(), new Set(known));
  else return;
  core.fit(undefined, 30);
  if (core.zoom() > 1.4) core.zoom(1.4), core.center();
}

const STEPS: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Loads the graph library while the reader looks at something else. */
export function prepare(): void {
  const whenIdle = globalThis.requestIdleCallback ?? ((work: () => void) => setTimeout(work, 500));
  whenIdle(() => void import("cytoscape"));
}

export function Picture(props: { drawing: Drawing; label: string; onChoose?: (type: string, id: string) => void; height?: number }) {
  const box = useRef<HTMLDivElement>(null);
  const core = useRef<Core | undefined>(undefined);
  const choose = useRef(props.onChoose);
  choose.current = props.onChoose;
  const [isReady, setReady] = useState(false);
  const [said, setSaid] = useState("");
  const drawing = trim(props.drawing);
  const key = JSON.stringify(drawing);
  const isEmpty = drawing.dots.length === 0;
  useEffect(() => {
    let isGone = false;
    const began = performance.now();
    void import("cytoscape").then(({ default: cytoscape }) => {
      if (isGone || !box.current) return;
      if (!core.current) {
        core.current = cytoscape({ container: box.current, style: makeStyle(), maxZoom: 2.5, minZoom: 0.1, wheelSensitivity: 0.4 });
        core.current.on("tap", "node", (event) => choose.current?.(event.target.data("type"), event.target.data("identity")));
      }
      redraw(core.current, drawing);
      box.current.dataset["drawnMs"] = String(Math.round(performance.now() - began));
      setReady(true);
    });
    return () => {
      isGone = true;
    };
  }, [key]);
  useEffect(() => {
    const repaint = () => core.current?.style(makeStyle());
    addEventListener("themechange", repaint);
    return () => {
      removeEventListener("themechange", repaint);
      core.current?.destroy();
      core.current = undefined;
    };
  }, [isEmpty]);
  if (isEmpty) return <Empty title="Nothing to draw" />;
  const press = (event: KeyboardEvent) => {
    const nodes = core.current?.nodes();
    if (!nodes || nodes.empty()) return;
    const at = nodes.toArray().findIndex((each) => each.selected());
    const step = STEPS[event.key];
    if (step !== undefined) {
      const next = nodes[(at + step + nodes.length) % nodes.length] as NodeSingular;
      nodes.unselect();
      next.select();
      const { x1, x2, y1, y2 } = next.renderedBoundingBox();
      const { clientWidth, clientHeight } = event.currentTarget as HTMLElement;
      if (x1 < 0 || y1 < 0 || x2 > clientWidth || y2 > clientHeight) core.current?.center(next);
      setSaid(`${next.data("type")} ${next.data("identity")}`);
    } else if (event.key === "Enter" && at >= 0) {
      const node = nodes[at] as NodeSingular;
      choose.current?.(node.data("type"), node.data("identity"));
    } else return;
    event.preventDefault();
  };
  const hues = [...huesOf(drawing)];
  return (
    <figure class="picture">
      {hues.length > 1 && (
        <p class="legend">
          {hues.map(([type, hue]) => (
            <span key={type}>
              <i class={`swatch hue-${hue}`} /> {type}
            </span>
          ))}
        </p>
      )}
      <div
        ref={box}
        class="canvas"
        role="application"
        aria-roledescription="picture"
        aria-label={`${props.label}. Arrow keys go from entity to entity${props.onChoose ? ", Enter opens one" : ""}.`}
        tabIndex={0}
        onKeyDown={press}
        style={{ height: `${props.height ?? 460}px` }}
      >
        {!isReady && <Skeleton lines={3} />}
      </div>
      <p class="unseen" role="status">
        {said}
      </p>
      {props.drawing.dots.length > DOTS_MAX && (
        <figcaption class="dim">The first {DOTS_MAX} of {props.drawing.dots.length} entities are drawn.</figcaption>
      )}
    </figure>
  );
}
