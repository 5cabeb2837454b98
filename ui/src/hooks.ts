/** Loading, and keys. */
import { createContext } from "preact";
import { useCallback, useContext, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError, type Rights } from "./api";

export interface Loaded<T> {
  data: T | undefined;
  error: ApiError | undefined;
  isLoading: boolean;
  reload: () => void;
}

function asApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, { error: String(error) });
}

/** Loads anew whenever `key` changes; what was shown before stays until then. */
export function useLoad<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ data?: T; error?: ApiError; isLoading: boolean }>({ isLoading: key !== null });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    if (key === null) return setState({ isLoading: false });
    const stop = new AbortController();
    setState((before) => ({ ...before, isLoading: true }));
    latest.current(stop.signal).then(
      (data) => stop.signal.aborted || setState({ data, isLoading: false }),
      (error: unknown) => stop.signal.aborted || setState({ error: asApiError(error), isLoading: false }),
    );
    return () => stop.abort();
  }, [key, turn]);
  const reload = useCallback(() => setTurn((each) => each + 1), []);
  return { data: state.data, error: state.error, isLoading: state.isLoading, reload };
}

/** An action of the reader: is it under way, and what did the server refuse? */
export function useAction(): {
  isBusy: boolean;
  error: ApiError | undefined;
  run: (work: () => Promise<void>) => Promise<void>;
  clear: () => void;
} {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const run = useCallback(async (work: () => Promise<void>) => {
    setBusy(true);
    setError(undefined);
    try {
      await work();
    } catch (refused) {
      setError(asApiError(refused));
    } finally {
      setBusy(false);
    }
  }, []);
  return { isBusy, error, run, clear: () => setError(undefined) };
}

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  if (!element?.closest) return false;
  return !!element.closest("input:not([type=radio]):not([type=range]), textarea, select, .editor");
}

/** Keys of a page; not while the reader types into a field. */
export function useKeys(keys: Record<string, (event: KeyboardEvent) => void>): void {
  const latest = useRef(keys);
  latest.current = keys;
  // With the page and not after it: a key that is pressed as soon as the page shows counts.
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const action = latest.current[event.key];
      if (action) {
        action(event);
        event.preventDefault();
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

export const RightsContext = createContext<Rights>({ graph_id: "", actor_id: null, actions: [] });

/** May the reader do this on main? The server decides again in any case. */
export function useMay(action: string): boolean {
  return useContext(RightsContext).actions.includes(action);
}
