/** The editor. It lives in a shadow root, where styles need no `style` element (our policy has none). */
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionSource } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { linter, type Diagnostic } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "preact/hooks";
import type { Finding } from "../api";
import { colours, language } from "./language";

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--field)", fontSize: "13.5px", borderRadius: "8px", border: "1px solid var(--line-strong)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace", minHeight: "190px", maxHeight: "46vh", overflow: "auto", lineHeight: "1.55" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--dim)", border: "none" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground, ::selection": { backgroundColor: "var(--chosen) !important" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line-strong)", borderRadius: "8px", overflow: "hidden" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent-strong)", color: "#fff" },
  ".cm-diagnostic": { fontFamily: "system-ui, sans-serif", padding: "6px 10px" },
  ".cm-diagnostic-error": { borderLeft: "4px solid var(--delete)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--delete)", textUnderlineOffset: "3px" },
});

export type Lint = (program: string) => Promise<Finding[]>;

function hintOf(finding: Finding): string {
  const hint = /hint: (.*)/.exec(finding.rendered)?.[1];
  return `${finding.message} [${finding.code}]${hint ? `\n${hint}` : ""}`;
}

/** The word at the position that the server names. */
function markOf(state: EditorState, finding: Finding): Diagnostic {
  const line = state.doc.line(Math.min(Math.max(1, finding.line), state.doc.lines));
  const from = Math.min(line.from + Math.max(0, finding.column - 1), line.to);
  const word = /^\$?\w+|^./.exec(line.text.slice(from - line.from))?.[0].length ?? 0;
  return { from, to: Math.min(line.to, from + Math.max(1, word)), severity: "error", message: hintOf(finding) };
}

/** The text belongs to the editor; `value` is the one it starts with. */
export function Editor(props: {
  value: string;
  label: string;
  onChange: (value: string) => void;
  onRun?: () => void;
  lint?: Lint;
  complete?: CompletionSource | undefined;
}) {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const completing = useRef(new Compartment());
  useEffect(() => {
    const host = box.current as HTMLDivElement;
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    const check = linter(
      async (seen) => ((await latest.current.lint?.(seen.state.doc.toString())) ?? []).map((each) => markOf(seen.state, each)),
      { delay: 300 },
    );
    const run = { key: "Mod-Enter", run: () => (latest.current.onRun?.(), true) };
    const created = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: props.value,
        extensions: [
          keymap.of([run, ...closeBracketsKeymap, ...completionKeymap, ...defaultKeymap, ...historyKeymap]),
          lineNumbers(),
          history(),
          language,
          syntaxHighlighting(colours),
          bracketMatching(),
          closeBrackets(),
          indentOnInput(),
          completing.current.of([]),
          check,
          look,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": props.label }),
          EditorView.updateListener.of((update) => update.docChanged && latest.current.onChange(update.state.doc.toString())),
        ],
      }),
    });
    view.current = created;
    return () => created.destroy();
  }, []);
  useEffect(() => {
    const extension = props.complete ? autocompletion({ override: [props.complete] }) : [];
    view.current?.dispatch({ effects: completing.current.reconfigure(extension) });
  }, [props.complete]);
  return <div ref={box} class="editor" />;
}
