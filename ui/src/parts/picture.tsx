/** A picture of nodes and edges. The graph library is a file of its own, loaded when a picture is shown. */
import type { Core, ElementDefinition, StylesheetJson } from "cytoscape";
import { useEffect, useRef, useState } from "preact/hooks";
import { Empty, Skeleton } from "./basics";

export type Tone = "plain" | "insert" | "update" | "delete" | "faded" | "chosen";

export interface Dot {
  type: string;
  id: string;
  tone: Tone;
  text?: string;
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

function makeStyle(): StylesheetJson {
  const toned = (["insert", "update", "delete"] as const).flatMap((tone) => [
    { selector: `node.${tone}`, style: { "background-color": colour(`--${tone}`) } },
    { selector: `edge.${tone}`, style: { "line-color": colour(`--${tone}`), "target-arrow-color": colour(`--${tone}`), width: 2.5 } },
  ]);
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
        width: 26,
        height: 26,
        "background-color": colour("--accent"),
        "border-width": 2,
        "border-color": colour("--surface"),
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
        "font-size": 9,
        color: colour("--dim"),
        "text-rotation": "autorotate",
        "text-background-color": colour("--surface"),
        "text-background-opacity": 1,
        "text-background-padding": "2px",
      },
    },
    ...toned,
    { selector: ".faded", style: { opacity: 0.45, "background-color": colour("--dim") } },
    { selector: "node.chosen", style: { width: 38, height: 38, "border-color": colour("--accent"), "border-width": 4, "background-color": colour("--surface") } },
    { selector: "node:selected", style: { "border-color": colour("--text"), "border-width": 3 } },
  ] as StylesheetJson;
}

function elementsOf(drawing: Drawing): ElementDefinition[] {
  const dots = drawing.dots.map((each) => ({
    group: "nodes" as const,
    data: { id: dotKey(each.type, each.id), text: each.text ?? each.id, type: each.type, identity: each.id },
    classes: each.tone,
  }));
  const lines = drawing.lines.map((each, at) => ({
    group: "edges" as const,
    data: { id: `line-${at}`, source: each.from, target: each.to, text: drawing.lines.length > 80 ? "" : each.type },
    classes: each.tone,
  }));
  return [...dots, ...lines];
}

/** A force layout is slow and unreadable for hundreds of dots; circles are neither. */
function layoutOf(drawing: Drawing) {
  if (drawing.dots.length > 120) return { name: "concentric" as const, animate: false, minNodeSpacing: 8 };
  return { name: "cose" as const, animate: false, randomize: true, idealEdgeLength: () => 90, nodeRepulsion: () => 9000, padding: 30 };
}

export function Picture(props: { drawing: Drawing; label: string; onChoose?: (type: string, id: string) => void; height?: number }) {
  const box = useRef<HTMLDivElement>(null);
  const choose = useRef(props.onChoose);
  choose.current = props.onChoose;
  const [isReady, setReady] = useState(false);
  const drawing = trim(props.drawing);
  const key = JSON.stringify(drawing);
  useEffect(() => {
    let core: Core | undefined;
    let isGone = false;
    const began = performance.now();
    void import("cytoscape").then(({ default: cytoscape }) => {
      if (isGone || !box.current) return;
      core = cytoscape({
        container: box.current,
        elements: elementsOf(drawing),
        style: makeStyle(),
        layout: layoutOf(drawing),
        maxZoom: 2.5,
        minZoom: 0.1,
      });
      if (core.zoom() > 1.4) core.zoom(1.4), core.center();
      core.on("tap", "node", (event) => choose.current?.(event.target.data("type"), event.target.data("identity")));
      box.current.dataset["drawnMs"] = String(Math.round(performance.now() - began));
      setReady(true);
    });
    const repaint = () => core?.style(makeStyle());
    addEventListener("themechange", repaint);
    return () => {
      isGone = true;
      removeEventListener("themechange", repaint);
      core?.destroy();
    };
  }, [key]);
  if (drawing.dots.length === 0) return <Empty title="Nothing to draw" />;
  return (
    <figure class="picture">
      <div ref={box} class="canvas" role="img" aria-label={props.label} style={{ height: `${props.height ?? 460}px` }}>
        {!isReady && <Skeleton lines={3} />}
      </div>
      {props.drawing.dots.length > DOTS_MAX && (
        <figcaption class="dim">The first {DOTS_MAX} of {props.drawing.dots.length} entities are drawn.</figcaption>
      )}
    </figure>
  );
}
