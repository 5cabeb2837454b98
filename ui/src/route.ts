/** Where the reader is: the part of the address after `#`, so that the server needs one file only. */
import { useEffect, useState } from "preact/hooks";

export interface Place {
  page: string;
  with: Record<string, string>;
}

export function parsePlace(hash: string): Place {
  const [page = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { page: page || "overview", with: Object.fromEntries(new URLSearchParams(query)) };
}

export function linkTo(page: string, parameters: Record<string, string | undefined> = {}): string {
  const known = Object.entries(parameters).filter((each): each is [string, string] => !!each[1]);
  const query = new URLSearchParams(known).toString();
  return `#/${page}${query ? `?${query}` : ""}`;
}

export function goTo(page: string, parameters: Record<string, string | undefined> = {}): void {
  location.hash = linkTo(page, parameters);
}

export function usePlace(): Place {
  const [place, setPlace] = useState(() => parsePlace(location.hash));
  useEffect(() => {
    const follow = () => setPlace(parsePlace(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return place;
}
