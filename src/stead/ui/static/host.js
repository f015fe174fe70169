/** One host beside the grid: its sums, and its providers with what each has and uses. */
import { amounts } from "./amounts.js";
import { html } from "./html.js";
import { providerPage } from "./place.js";
import { useEffect, useRef, useState } from "./vendor/hooks.js";

/** @typedef {import("./live.js").Live} Live */

/**
 * @typedef {{providers: {
 *   row_count: number, uuid: string[], name: string[], parent_row: number[],
 *   inventories: Record<string, {row?: number[], kinds: {capacity: number}[], kind: number[]}>,
 *   usages: Record<string, {row?: number[], used: number[]}>,
 * }}} Tree
 */

/**
 * @param {{live: Live, name: string, changes: number, close: () => void}} props
 */
export function Host({ live, name, changes, close }) {
  const [tree, setTree] = useState(/** @type {Tree | null} */ (null));
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  const site = live.site;
  const host = site?.numberOf(name);
  const sums = site && host !== undefined ? held(site, host) : [];
  const key = JSON.stringify(sums);
  useEffect(() => heading.current?.focus(), [name]);
  useEffect(() => {
    const ended = new AbortController();
    const query = `columns=true&fields=uuid,name,parent_provider_uuid,inventories,usages&in_tree=${encodeURIComponent(`name:${name}`)}`;
    live.json(`/provider_trees?${query}`, ended.signal)
      .then(setTree, () => undefined); // the sums stay visible, and the next change reads again
    return () => ended.abort();
  }, [name, key]);
  if (!site || host === undefined) return html`<p role="status"><bdi>${name}</bdi> does not exist any more.</p>`;
  const state = site.state(host);
  const traits = site.members("traits", host);
  return html`<section class="grid-host" aria-labelledby="grid-host-name" data-changes=${changes}>
    <h2 id="grid-host-name" tabindex="-1" ref=${heading}>${tree && tree.providers.name[0] === name ? html`<a href=${providerPage(tree.providers.uuid[0])}><bdi>${name}</bdi></a>` : html`<bdi>${name}</bdi>`}</h2>
    <button type="button" onClick=${close}>Close</button>
    ${state && html`<p>Disabled: ${state.reason ?? "no reason"}</p>`}
    <div class="scrolls" tabindex="0" role="region" aria-label="Sums of the host"><table>
      <caption>Sums of the host</caption>
      <thead><tr><th scope="col">Class</th><th scope="col">Used</th></tr></thead>
      <tbody>${sums.map(({ of, used, capacity }) => html`<tr key=${of}><th scope="row">${of}</th>
        <td>${amounts(used, capacity, of)}</td></tr>`)}</tbody>
    </table></div>
    ${tree && tree.providers.row_count > 1 && html`<${Providers} tree=${tree} />`}
    <p>Traits: ${traits.slice(0, 50).join(", ") || "none"}
      ${traits.length > 50 ? ` and ${traits.length - 50} more` : ""}</p>
  </section>`;
}

/** @param {import("./site.js").Site} site @param {number} host */
function held(site, host) {
  return Object.keys(site.sums).flatMap((of) => {
    const amounts = site.amounts(of, host);
    return amounts ? [{ of, used: amounts.used, capacity: amounts.capacity }] : [];
  });
}

/** @param {{tree: Tree}} props */
function Providers({ tree: { providers } }) {
  /** @type {number[]} */
  const depths = [];
  for (const parent of providers.parent_row) depths.push(parent < 0 ? 0 : depths[parent] + 1);
  return html`<div class="scrolls" tabindex="0" role="region" aria-label="Providers of the host"><table>
    <caption>Providers of the host</caption>
    <thead><tr><th scope="col">Provider</th><th scope="col">Used</th></tr></thead>
    <tbody>${providers.name.map((name, row) => html`<tr key=${name}>
      <th scope="row"><span aria-hidden="true">${"  ".repeat(depths[row])}</span><bdi>${name}</bdi></th>
      <td>${ofProvider(providers, row).join(", ") || "–"}</td></tr>`)}</tbody>
  </table></div>`;
}

/** @param {Tree["providers"]} providers @param {number} row */
function ofProvider(providers, row) {
  return Object.entries(providers.inventories).flatMap(([of, { row: rows, kinds, kind }]) => {
    const place = rows ? rows.indexOf(row) : row;
    if (place < 0 || kind[place] < 0) return [];
    return [`${of} ${amounts(providers.usages[of].used[place], kinds[kind[place]].capacity, of)}`];
  });
}
