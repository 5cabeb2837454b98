/** What stands one edge away, asked in the query language. */
import { ask, type EdgeType, type Json, type NodeType, type ReadReply, type Types } from "./api";

export interface Neighbour {
  edge: string;
  isOutgoing: boolean;
  type: string;
  id: string;
}

export interface Where {
  branch?: string | undefined;
  snapshot?: string | undefined;
}

function keysOf(node: NodeType): { name: string; type: string }[] {
  return node.properties.filter((each) => each.is_key);
}

/** The name of an edge as a traversal spells it. */
export function spelled(edge: string): string {
  return edge.slice(0, 1).toLowerCase() + edge.slice(1);
}

/** The id of a node that a query returned: a node is an object with its id and properties. */
export function idOf(value: unknown): string | null {
  if (value === null || typeof value !== "object" || !("@id" in value)) return null;
  return typeof value["@id"] === "string" ? value["@id"] : null;
}

/** Neighbours over one edge type; `at most` bounds the answer. */
async function across(node: NodeType, row: Record<string, Json>, edge: EdgeType, isOutgoing: boolean, limit: number, where: Where, signal?: AbortSignal) {
  const keys = keysOf(node);
  const heads = keys.map((each, at) => `$k${at}: ${each.type.startsWith("enum") ? "String" : each.type}`).join(", ");
  const filters = keys.map((each, at) => `$a.${each.name} = $k${at}`).join("\n");
  const far = isOutgoing ? edge.target : edge.source;
  const walk = isOutgoing ? `$a ${spelled(edge.name)} $b` : `$b ${spelled(edge.name)} $a`;
  const query = `query neighbours(${heads}) {\n match { $a: ${node.name}\n ${filters}\n $b: ${far}\n ${walk} }\n return { $b }\n limit ${limit}\n}`;
  const params = Object.fromEntries(keys.map((each, at) => [`k${at}`, row[each.name] ?? null]));
  const found = await ask<ReadReply>("query", { body: { query, params, ...where }, signal });
  return found.rows.map((each): Neighbour => ({ edge: edge.name, isOutgoing, type: far, id: idOf(each["b"]) ?? "" }));
}

/** All neighbours of a node, at most `limit` for each edge type and direction. */
export async function findNeighbours(types: Types, type: string, row: Record<string, Json>, limit: number, where: Where, signal?: AbortSignal): Promise<Neighbour[]> {
  const node = types.nodes.find((each) => each.name === type);
  if (!node || keysOf(node).length === 0) return [];
  const asked = types.edges.flatMap((edge) => [
    ...(edge.source === type ? [across(node, row, edge, true, limit, where, signal)] : []),
    ...(edge.target === type ? [across(node, row, edge, false, limit, where, signal)] : []),
  ]);
  return (await Promise.all(asked)).flat();
}
