/** Values as text. */
import type { Json } from "./api";

const AGES: [number, Intl.RelativeTimeFormatUnit][] = [
  [60, "second"],
  [60, "minute"],
  [24, "hour"],
  [30, "day"],
  [12, "month"],
  [Infinity, "year"],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const exact = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium" });
const whole = new Intl.NumberFormat("en");

/** Microseconds since the epoch as «5 min. ago». */
export function ageOf(micros: number, now = Date.now()): string {
  let amount = Math.min(0, (micros / 1000 - now) / 1000);
  for (const [size, unit] of AGES) {
    if (-amount < size) return relative.format(Math.round(amount), unit);
    amount /= size;
  }
  return "";
}

export function timeOf(micros: number): string {
  return exact.format(micros / 1000);
}

export function counted(count: number, noun: string): string {
  return `${whole.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function numberText(count: number): string {
  return whole.format(count);
}

/** A value on one line. */
export function valueText(value: unknown): string {
  if (value === null || value === undefined) return "null";
  if (typeof value === "string") return value;
  return JSON.stringify(value);
}

export function shortId(id: string): string {
  return id.length > 12 ? `${id.slice(0, 4)}…${id.slice(-6)}` : id;
}

export function sameJson(left: Json | undefined, right: Json | undefined): boolean {
  return JSON.stringify(left ?? null) === JSON.stringify(right ?? null);
}

/** Hands a text to the reader as a file. */
export function saveFile(name: string, text: string, kind: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function csvOf(columns: string[], rows: Record<string, unknown>[]): string {
  const cell = (value: unknown): string => {
    if (value === null || value === undefined) return "";
    const text = valueText(value);
    return text === "" || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = rows.map((row) => columns.map((each) => cell(row[each])).join(","));
  return [columns.map(cell).join(","), ...lines, ""].join("\r\n");
}
