/** The Activity page: reads itself again when the site changes, and lights up the sentences that are new. */
import { reread } from "./reread.js";

/** Minimum time between two reads, in milliseconds. */
const PAUSE = 5000;

/** The server shares what it read for a second, in milliseconds. */
const SHARED = 1200;

let isDue = false;
let read = -Infinity;

/** After each change, or after the page was away. */
export function changed() {
  if (isDue) return;
  isDue = true;
  setTimeout(refresh, Math.max(SHARED, read + PAUSE - performance.now()));
}

async function refresh() {
  isDue = false;
  if (document.hidden) return;
  read = performance.now();
  const before = new Set(keys().map(([key]) => key));
  const address = new URL(location.href);
  address.searchParams.set("part", "shared");
  await reread("#activity", address.href);
  for (const [key, line] of keys()) if (!before.has(key)) line.classList.add("new");
}

/** The sentences by what they say. @returns {[string, Element][]} */
const keys = () => [...document.querySelectorAll("[data-key]")].map((line) => [line.getAttribute("data-key") ?? "", line]);
