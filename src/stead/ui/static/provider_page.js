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
  point();
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

/** Say what is under the pointer, and light up all that its consumer holds. `l` shows the providers as a list. */
function point() {
  document.addEventListener("pointerover", ({ target }) => {
    const element = target instanceof Element ? target : null;
    const holder = element?.closest("[data-holder]")?.getAttribute("data-holder") ?? "";
    for (const each of document.querySelectorAll("[data-holder]")) each.classList.toggle("pointed", each.getAttribute("data-holder") === holder);
    document.querySelector(".machine")?.classList.toggle("points", holder !== "");
    const hint = document.querySelector(".hint");
    const words = element?.closest("rect")?.querySelector("title")?.textContent;
    if (hint) hint.textContent = words ?? NO_HINT;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "l" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const list = document.querySelector("details:has(> .tree)");
    if (!(list instanceof HTMLDetailsElement)) return;
    list.open = !list.open;
    if (list.open) list.querySelector("summary")?.focus();
  });
}

const NO_HINT = "Point at a part of a bar to see whose it is. Click it to mark all that its consumer holds.";

/** @param {EventTarget | null} target */
const isTyping = (target) => target instanceof Element && target.matches("input, textarea, select");
