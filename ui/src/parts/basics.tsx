/** Small parts that all pages share. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "../api";
import { ageOf, timeOf } from "../format";

export function Failure({ error, onRetry }: { error: ApiError | undefined; onRetry?: (() => void) | undefined }) {
  if (!error) return null;
  return (
    <div class="failure" role="alert">
      <pre>{error.message}</pre>
      {onRetry && (
        <button type="button" class="small" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Grey bars in the place of what is still to come, so that nothing jumps. */
export function Skeleton({ lines = 4, label = "Loading" }: { lines?: number; label?: string }) {
  return (
    <div class="skeleton" role="status" aria-label={label}>
      {Array.from({ length: lines }, (_, at) => (
        <span key={at} />
      ))}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children && <p>{children}</p>}
    </div>
  );
}

export function Age({ at }: { at: number }) {
  return (
    <time class="dim" title={timeOf(at)} dateTime={new Date(at / 1000).toISOString()}>
      {ageOf(at)}
    </time>
  );
}

const HUES = 8;

export function Actor({ name }: { name: string | null | undefined }) {
  if (!name) return <span class="dim">no actor</span>;
  let sum = 0;
  for (const each of name) sum = (sum * 31 + each.charCodeAt(0)) % 997;
  return (
    <span class="actor">
      <i class={`dot hue-${sum % HUES}`} aria-hidden="true">
        {name.slice(0, 1).toUpperCase()}
      </i>
      {name}
    </span>
  );
}

export function Tabs<T extends string>(props: {
  label: string;
  tabs: [T, string][];
  current: T;
  onChoose: (tab: T) => void;
}) {
  const step = (event: KeyboardEvent, by: number) => {
    const at = props.tabs.findIndex((each) => each[0] === props.current);
    const next = props.tabs[(at + by + props.tabs.length) % props.tabs.length];
    if (next) props.onChoose(next[0]);
    event.preventDefault();
  };
  const row = useRef<HTMLDivElement>(null);
  const press = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    step(event, by);
    requestAnimationFrame(() => row.current?.querySelector<HTMLElement>("[aria-selected=true]")?.focus());
  };
  return (
    <div class="tabs" role="tablist" aria-label={props.label} ref={row} onKeyDown={press}>
      {props.tabs.map(([name, text]) => (
        <button
          key={name}
          type="button"
          role="tab"
          aria-selected={props.current === name}
          tabIndex={props.current === name ? 0 : -1}
          onClick={() => props.onChoose(name)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

const px = (size: number) => `${size}px`;

/** A list of any length of which only the visible rows exist. */
export function VirtualList(props: {
  count: number;
  rowHeight: number;
  height: number;
  label: string;
  row: (at: number) => ComponentChildren;
  role?: "list" | "table";
}) {
  const [top, setTop] = useState(0);
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (frame.current) frame.current.scrollTop = 0;
    setTop(0);
  }, [props.count === 0]);
  const height = Math.min(props.height, props.count * props.rowHeight);
  const first = Math.max(0, Math.floor(top / props.rowHeight) - 8);
  const last = Math.min(props.count, Math.ceil((top + height) / props.rowHeight) + 8);
  const rows = [];
  for (let at = first; at < last; at++) {
    rows.push(
      <div key={at} role="listitem" class="virtual-row" style={{ top: px(at * props.rowHeight), height: px(props.rowHeight) }}>
        {props.row(at)}
      </div>,
    );
  }
  return (
    <div
      ref={frame}
      class="virtual"
      role="region"
      aria-label={props.label}
      tabIndex={0}
      style={{ height: px(height) }}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <div role="list" aria-label={props.label} style={{ height: px(props.count * props.rowHeight) }} class="virtual-all">
        {rows}
      </div>
    </div>
  );
}

/** A panel over the page; Escape closes it, and the focus returns to where it was. */
export function Drawer({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const panel = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    panel.current?.showModal();
    return () => before?.focus();
  }, []);
  return (
    <dialog ref={panel} class="drawer" aria-label={title} onClose={onClose}>
      <header>
        <h2>{title}</h2>
        <button type="button" class="ghost" aria-label="Close" onClick={() => panel.current?.close()}>
          ✕
        </button>
      </header>
      <div class="drawer-body">{children}</div>
    </dialog>
  );
}

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M10 22V10M10 16c0-4 12-1 12-6" />
      <circle cx="10" cy="9" r="3.2" />
      <circle cx="10" cy="23" r="3.2" />
      <circle cx="22" cy="9" r="3.2" />
    </svg>
  );
}
