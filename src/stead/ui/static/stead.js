/**
 * Makes the pages of the web interface live. Without this script, they show what the server wrote.
 *
 * `data-class` marks numbers that follow the site.
 */
import { refresh } from "./cells.js";
import { Live } from "./live.js";
import { addStyle, API } from "./place.js";
import { start } from "./texts.js";

/** @typedef {import("./site.js").Message} Message */
/** @typedef {(live: Live, message: Message | null, hosts: number[]) => void} Listener */

/** @type {Listener[]} */
const listeners = [];
const grid = document.getElementById("grid");
const activity = document.getElementById("activity");
const hasNumbers = document.querySelector("[data-class]") !== null;
const live = new Live(API, grid !== null || hasNumbers, (message, hosts) => {
  for (const listener of listeners) listener(live, message, hosts);
});

start();
addEventListener("keydown", async (event) => {
  const isPalette = (event.ctrlKey || event.metaKey) && event.key === "k";
  const isTyping = event.target instanceof Element && event.target.matches("input, textarea, select, [contenteditable]");
  if (!isPalette && (isTyping || event.ctrlKey || event.metaKey || event.altKey || !["?", "/"].includes(event.key))) return;
  const field = document.querySelector(".search input");
  if (event.key === "/") {
    if (!(field instanceof HTMLElement)) return;
    event.preventDefault();
    field.focus();
    return;
  }
  event.preventDefault();
  const { show, showKeys } = await import("./palette.js");
  if (isPalette) show(live);
  else showKeys();
});
addEventListener("click", async (event) => {
  if (event.target instanceof Element && event.target.closest("[data-palette]")) (await import("./palette.js")).show(live);
});

if (grid) {
  addStyle("./live.css");
  const page = await import("./site_page.js");
  page.start(grid, live);
  listeners.push(page.changed);
}
const builder = document.querySelector("form:has(> #builder)");
if (builder instanceof HTMLFormElement) (await import("./builder.js")).start(builder);
if (document.getElementById("flavors")) (await import("./flavors.js")).start();
if (activity) {
  const { changed } = await import("./activity.js");
  listeners.push(changed);
}
if (document.body.dataset.page === "provider") {
  const { follow } = await import("./provider_page.js");
  listeners.push(follow(live));
}
if (hasNumbers) {
  let isFirst = true;
  listeners.push(({ site }, message) => {
    if (!message && !isFirst) void rereadTables(); // hosts came or went, or have other inventories
    isFirst = isFirst && message !== null;
    if (site) refresh(site);
  });
}

/** Read the rows of the tables again. */
async function rereadTables() {
  const { reread } = await import("./reread.js");
  await Promise.all([reread("#trees"), reread("#sums"), reread("#answer")]);
}
if (listeners.length) live.run();

/** For measurements and tests. */
Object.assign(globalThis, { stead: { live } });
