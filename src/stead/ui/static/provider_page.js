/** Keeps the Provider page current: reads it from the server again when its tree changes. */

import { isEditing, reread } from "./reread.js";

/** @typedef {import("./live.js").Live} Live */
/** @typedef {import("./site.js").Message} Message */

/** Minimum time between two reads, in milliseconds. */
const PAUSE = 2000;

/**
 * What to call after each change.
 *
 * @param {Live} live
 * @returns {(live: Live, message: Message | null, hosts: number[]) => void}
 */
export function follow(live) {
  /** @type {string | null} */
  let root = null;
  let isDue = false;
  let read = -Infinity;
  const uuid = location.pathname.split("/").at(-1) ?? "";
  const query = `columns=true&depth=0&fields=name&in_tree=${encodeURIComponent(uuid)}`;

  const refresh = async () => {
    isDue = false;
    read = performance.now();
    const main = document.querySelector("main");
    if (main && isEditing(main)) return later();
    await reread("main");
  };
  const later = () => {
    if (isDue) return;
    isDue = true;
    setTimeout(refresh, Math.max(0, read + PAUSE - performance.now()));
  };
  return (_, message) => {
    if (!message) {
      // What changed before the connection is not known. The page may be older than that.
      later();
      if (root !== null) return;
      live.json(`/provider_trees?${query}`)
        .then(({ providers }) => (root = providers.name[0] ?? ""), () => undefined);
    } else if (message.reload || (root !== null && message.trees.name.includes(root))) later();
  };
}
