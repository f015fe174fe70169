/** Colours of the map other than by use: where a flavor fits, what it leaves over, and when a host was written last. */
import { number } from "./amounts.js";
import { NO_CLASS } from "./colors.js";

/** @typedef {import("./live.js").Live} Live */
/** @typedef {{levelOf: (host: number) => number, textOf: (host: number) => string, ends: [string, string]}} Paint */
/** @typedef {{name: string, query: string}} Flavor */

/** Trees in one page of GET /headroom. */
const PAGE = 10_000;
const DAY = 86_400;
const OLDEST = 30 * DAY;

/** @param {Live} live @returns {Promise<Flavor[]>} */
export const flavors = async (live) => (await live.json("/flavors")).flavors;

/** How many times a flavor fits in each host. @param {Live} live @param {string} flavor */
async function fits(live, flavor) {
  const site = live.site;
  const numbers = new Int32Array(site?.size ?? 0);
  for (let marker = ""; ; ) {
    const { headroom } = await live.json(`/headroom?flavor=${encodeURIComponent(flavor)}&limit=${PAGE}${marker}`);
    for (const { name, at_least: least } of headroom.trees) numbers[site?.numberOf(name) ?? -1] = least;
    if (headroom.trees.length < PAGE) return numbers;
    marker = `&marker=${headroom.trees.at(-1).root}`;
  }
}

/** What one of a flavor takes of a class, over all its groups. @param {string} query @param {string} of */
function taken(query, of) {
  let sum = 0;
  for (const [key, value] of new URLSearchParams(query)) {
    if (!key.startsWith("resources")) continue;
    for (const each of value.split(",")) if (each.startsWith(`${of}:`)) sum += Number(each.slice(of.length + 1));
  }
  return sum;
}

/**
 * @param {Live} live @param {string} kind `fit`, `stranded` or `age` @param {string} of the class @param {Flavor | undefined} flavor
 * @returns {Promise<Paint>}
 */
export async function painted(live, kind, of, flavor) {
  const site = live.site;
  if (kind === "age") {
    const answer = await fetch(`${location.pathname}?part=written`, { credentials: "same-origin" });
    const { modified } = await answer.json();
    const now = Date.now() / 1000;
    const age = (/** @type {number} */ host) => Math.max(0, now - (modified[host] ?? 0));
    const levelOf = (/** @type {number} */ host) => Math.round(100 * (1 - Math.min(1, Math.log1p(age(host)) / Math.log1p(OLDEST))));
    return { levelOf, textOf: (host) => span(age(host)), ends: ["30 days ago or more", "now"] };
  }
  const numbers = flavor ? await fits(live, flavor.name) : new Int32Array(0);
  if (kind === "fit") {
    const most = numbers.reduce((max, each) => Math.max(max, each), 1);
    return {
      levelOf: (host) => (numbers[host] ? Math.round(85 * (1 - numbers[host] / most)) : 100),
      textOf: (host) => `${number(numbers[host] ?? 0)} ×`,
      ends: [`${number(most)} fit`, "none fits"],
    };
  }
  const each = flavor ? taken(flavor.query, of) : 0;
  const left = (/** @type {number} */ host) => {
    const held = site?.amounts(of, host);
    return held && held.capacity > 0 ? Math.max(0, held.capacity - held.used - each * (numbers[host] ?? 0)) / held.capacity : null;
  };
  return {
    levelOf: (host) => Math.round(100 * (left(host) ?? NO_CLASS / 100)),
    textOf: (host) => (left(host) === null ? "–" : `${Math.round(100 * (left(host) ?? 0))}\u202f%`),
    ends: ["0 % stranded", "100 %"],
  };
}

/** A time in its largest unit. @param {number} seconds */
function span(seconds) {
  for (const [length, unit] of /** @type {const} */ ([[DAY, "d"], [3600, "h"], [60, "min"]])) if (seconds >= length) return `${Math.floor(seconds / length)} ${unit}`;
  return "now";
}
