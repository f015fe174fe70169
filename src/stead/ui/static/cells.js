/**
 * Numbers in tables that the server wrote. An element with `data-tree` (name of a root) and `data-class` has the amount
 * used in that tree; without `data-tree`, that of the whole site. `data-of` is `used` (default), `free` or `percent`.
 * A bar with these attributes gets its width and its colour.
 */

import { amount } from "./amounts.js";

/** @typedef {import("./site.js").Site} Site */

addEventListener("animationend", ({ target }) => {
  if (target instanceof Element) target.classList.remove("changed");
});

/** Write the present numbers. @param {Site} site @param {ParentNode} [root] */
export function refresh(site, root = document) {
  for (const element of root.querySelectorAll("[data-class]")) {
    if (!(element instanceof HTMLElement || element instanceof SVGElement)) continue;
    const { class: of = "", tree, of: what = "used" } = element.dataset;
    if (!site.sums[of]) continue;
    const amounts = tree === undefined ? site.whole(of) : ofTree(site, of, tree);
    if (!amounts) continue;
    const { capacity, used } = amounts;
    if (element instanceof SVGElement) {
      draw(element, capacity > 0 ? Math.min(100, Math.max(0, (100 * used) / capacity)) : 0);
      continue;
    }
    const value = { used, free: capacity - used, percent: capacity > 0 ? Math.round((100 * used) / capacity) : 0 }[what] ?? used;
    const text = what === "percent" ? `${value}\u202f%` : amount(value, of);
    if (element.textContent === text) continue;
    element.textContent = text;
    element.classList.add("changed");
  }
}

/** @param {SVGElement} bar @param {number} percent */
function draw(bar, percent) {
  const part = bar.querySelector("rect");
  part?.setAttribute("width", `${percent.toFixed(2)}%`);
  part?.setAttribute("class", `f${Math.round(percent / 10)}`);
}

/** @param {Site} site @param {string} of @param {string} tree */
function ofTree(site, of, tree) {
  const host = site.numberOf(tree);
  return host === undefined ? null : site.amounts(of, host);
}
