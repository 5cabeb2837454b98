/** The query language for the editor: colours, and what may come next. Rules are the server's. */
import type { CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { HighlightStyle, StreamLanguage, type StreamParser } from "@codemirror/language";
import { tags } from "@lezer/highlight";
import type { StoredQuery, Types } from "../api";
import { spelled } from "../neighbours";

const WORDS = new Set(
  "query match return order limit offset not optional as asc desc and or in is null insert update delete set where from to contains starts_with true false node edge interface implements enum".split(" "),
);
const FUNCTIONS = new Set(
  "count sum avg min max search match_text fuzzy bm25 nearest rrf now date datetime".split(" "),
);
const SCALARS = ["String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime", "Blob"];

const parser: StreamParser<{ isInComment: boolean }> = {
  startState: () => ({ isInComment: false }),
  token(stream, state) {
    if (state.isInComment) {
      if (stream.match(/.*?\*\//)) state.isInComment = false;
      else stream.skipToEnd();
      return "comment";
    }
    if (stream.eatSpace()) return null;
    if (stream.match("//")) return stream.skipToEnd(), "comment";
    if (stream.match("/*")) return (state.isInComment = true), "comment";
    if (stream.match(/"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.match(/\$\w+/)) return "variableName";
    if (stream.match(/@\w+/)) return "meta";
    if (stream.match(/-?\d+(\.\d+)?/)) return "number";
    if (stream.match(/[A-Z]\w*/)) return "typeName";
    if (stream.match(/[a-z_]\w*/)) {
      const word = stream.current();
      if (FUNCTIONS.has(word)) return "function";
      return WORDS.has(word) ? "keyword" : "propertyName";
    }
    stream.next();
    return null;
  },
  tokenTable: { function: tags.function(tags.variableName) },
  languageData: { commentTokens: { line: "//" }, closeBrackets: { brackets: ["(", "[", "{", '"'] } },
};

export const language = StreamLanguage.define(parser);

export const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-word)", fontWeight: "600" },
  { tag: tags.typeName, color: "var(--code-type)" },
  { tag: tags.variableName, color: "var(--code-name)" },
  { tag: tags.function(tags.variableName), color: "var(--code-call)" },
  { tag: tags.string, color: "var(--code-text)" },
  { tag: tags.number, color: "var(--code-text)" },
  { tag: tags.comment, color: "var(--dim)", fontStyle: "italic" },
  { tag: tags.meta, color: "var(--code-call)" },
]);

export interface Head {
  name: string;
  params: { name: string; type: string }[];
  isMutation: boolean;
}

/** The heads of the queries in a program. */
export function findHeads(program: string): Head[] {
  const found = [...program.matchAll(/\bquery\s+(\w+)\s*\(([^)]*(?:\(\d+\)[^)]*)*)\)/g)];
  return found.map((each, at) => {
    const end = found[at + 1]?.index ?? program.length;
    const body = program.slice(each.index, end);
    const params = [...(each[2] ?? "").matchAll(/\$(\w+)\s*:\s*(\[?\w+(?:\(\d+\))?\]?\??)/g)];
    return {
      name: each[1] as string,
      params: params.map((one) => ({ name: one[1] as string, type: one[2] as string })),
      isMutation: !/\bmatch\s*\{/.test(body) && /\b(insert|update|delete)\s+[A-Z]/.test(body),
    };
  });
}

export interface Step {
  from: string;
  edge: string;
  to: string;
}

/** The types of variables, as far as bindings and traversals tell, and the traversals themselves. */
export function findPattern(program: string, types: Types): { typeOf: Map<string, string>; steps: Step[] } {
  const typeOf = new Map<string, string>();
  for (const each of program.matchAll(/\$(\w+)\s*:\s*([A-Z]\w*)/g)) typeOf.set(each[1] as string, each[2] as string);
  const steps: Step[] = [];
  for (const each of program.matchAll(/\$(\w+)\s+(?:\$\w+\s*:\s*)?<?([a-z]\w*)>?(?:\{[^}]*\})?\s+\$(\w+)/g)) {
    const [, left = "", name = "", right = ""] = each;
    const edge = types.edges.find((one) => one.name.toLowerCase() === name.toLowerCase());
    if (!edge) continue;
    const isForward = edge.source === edge.target || typeOf.get(left) === edge.source || typeOf.get(right) === edge.target;
    const [from, to] = isForward ? [left, right] : [right, left];
    if (!typeOf.has(from)) typeOf.set(from, edge.source);
    if (!typeOf.has(to)) typeOf.set(to, edge.target);
    steps.push({ from, edge: edge.name, to });
  }
  return { typeOf, steps };
}

/** Types after a colon, properties after a dot, edges after a variable, and words anywhere. */
export function completionFrom(types: Types) {
  return (context: CompletionContext): CompletionResult | null => {
    const program = context.state.doc.toString();
    const property = context.matchBefore(/\$\w+\.\w*/);
    if (property) {
      const name = property.text.slice(1).split(".")[0] ?? "";
      const type = findPattern(program, types).typeOf.get(name);
      const found = [...types.nodes, ...types.edges].find((each) => each.name === type);
      const options = (found?.properties ?? []).map((each) => ({ label: each.name, type: "property", detail: each.type }));
      return { from: property.from + name.length + 2, options };
    }
    const variable = context.matchBefore(/\$\w*/);
    if (variable) {
      const names = new Set([...program.matchAll(/\$(\w+)/g)].map((each) => `$${each[1]}`));
      names.delete(variable.text);
      return { from: variable.from, options: [...names].map((label) => ({ label, type: "variable" })) };
    }
    const word = context.matchBefore(/\w+/);
    if (!word && !context.explicit) return null;
    return {
      from: word?.from ?? context.pos,
      options: [
        ...types.nodes.map((each) => ({ label: each.name, type: "class", detail: "node" })),
        ...types.edges.map((each) => ({ label: spelled(each.name), type: "interface", detail: `${each.source} → ${each.target}` })),
        ...types.edges.map((each) => ({ label: each.name, type: "interface", detail: "edge", boost: -1 })),
        ...SCALARS.map((label) => ({ label, type: "type", boost: -2 })),
        ...[...WORDS].map((label) => ({ label, type: "keyword", boost: -1 })),
        ...[...FUNCTIONS].map((label) => ({ label, type: "function", boost: -2 })),
      ],
    };
  };
}

/** The parameters of a stored query, with the types that a form can use. */
export function headOf(stored: StoredQuery): Head {
  const kinds: Record<string, string> = { int: "I32", bigint: "I64", float: "F64", double: "F64", bool: "Bool", boolean: "Bool", vector: "Vector", list: "[]" };
  const params = stored.params.map((each) => ({
    name: each.name,
    type: `${kinds[each.kind] ?? "String"}${each.nullable ? "?" : ""}`,
  }));
  return { name: stored.name, params, isMutation: stored.mutation };
}
