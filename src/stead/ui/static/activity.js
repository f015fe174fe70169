/** The Activity page: reads itself again when the site changes, and lights up the sentences that are new. */
import { reread } from "./reread.js";

/** Minimum time between two reads, in milliseconds. */
const PAUSE = 3000;

let isDue = false;
let read = -Infinity;

/** After each change, or after the page was away. */
export function changed() {
  if (isDue) return;
  isDue = true;
  setTimeout(refresh, Math.max(0, read + PAUSE - performance.now()));
}

async function refresh() {
  isDue = false;
  if (document.hidden) return;
  read = performance.now();
  const before = new Set(keys().map(([key]) => key));
  await reread("#activity");
  for (const [key, line] of keys()) if (!before.has(key)) line.classList.add("new");
}

/** The sentences by what they say. @returns {[string, Element][]} */
const keys = () => [...document.querySelectorAll("[data-key]")].map((line) => [line.getAttribute("data-key") ?? "", line]);
