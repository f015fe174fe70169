/** The grid of the Site page, its controls, and the host that is shown beside it. */
import { amounts } from "./amounts.js";
import { css, ofFill } from "./colors.js";
import { Grid } from "./grid.js";
import { html } from "./html.js";
import { GROUPINGS } from "./layout.js";
import { search } from "./search.js";
import { useEffect, useRef } from "./vendor/hooks.js";
import { render } from "./vendor/preact.js";
import { effect, signal } from "./vendor/signals.js";
import { Host } from "./host.js";

/** @typedef {import("./live.js").Live} Live */
/** @typedef {import("./site.js").Message} Message */

const GROUP_NAMES = { none: "No groups", prefix: "Name prefix", aggregate: "Aggregate", traits: "Traits" };

/** The number of changes so far: what depends on numbers of the site reads it. */
const changes = signal(0);
const className = signal("");
const grouping = signal(/** @type {import("./layout.js").Grouping} */ ("none"));
const query = signal(new URLSearchParams(location.search).get("search") ?? "");
const found = signal(/** @type {number | null} */ (null));
const focused = signal(-1);
const chosen = signal(/** @type {string | null} */ (null));

/** @type {Grid | null} */
let grid = null;

/** Draw into *root*. @param {HTMLElement} root @param {Live} live */
export function start(root, live) {
  root.replaceChildren();
  render(html`<${Page} live=${live} />`, root);
  effect(() => {
    changes.value; // a search by free amounts depends on the sums
    if (!live.site || !grid) return;
    const hosts = search(live.site, query.value);
    found.value = hosts ? hosts.reduce((sum, one) => sum + one, 0) : null;
    grid.highlight(hosts);
  });
}

/** Show what changed. @param {Live} live @param {Message | null} message @param {number[]} hosts */
export function changed(live, message, hosts) {
  const site = live.site;
  if (!site || !grid) return;
  const classes = site.classes();
  if (!classes.includes(className.value)) className.value = classes[0] ?? "";
  if (message) grid.update(hosts);
  else grid.show(site, className.value, grouping.value);
  changes.value += 1;
}

/** @param {{live: Live}} props */
function Page({ live }) {
  changes.value;
  const site = live.site;
  return html`
    <div class="grid-tools" role="group" aria-label="Grid">
      <label>Class
        <select value=${className.value} onChange=${(/** @type {Event} */ event) => select(live, event)}>
          ${site && Object.keys(site.sums).map((name) => html`<option value=${name}>${name}</option>`)}
        </select>
      </label>
      <label>Group by
        <select value=${grouping.value} onChange=${(/** @type {Event} */ event) => group(live, event)}>
          ${GROUPINGS.map((name) => html`<option value=${name}>${GROUP_NAMES[name]}</option>`)}
        </select>
      </label>
      <label>Find hosts
        <input type="search" value=${query.value} placeholder="name, trait:…, aggregate:…, VCPU>=4, disabled"
          onInput=${(/** @type {Event} */ event) => (query.value = valueOf(event))} />
      </label>
      <span class="grid-zoom">
        <button type="button" aria-label="Smaller cells" onClick=${() => grid?.zoom(-1)}>−</button>
        <button type="button" aria-label="Fit all hosts" onClick=${() => grid?.zoom(0)}>Fit</button>
        <button type="button" aria-label="Larger cells" onClick=${() => grid?.zoom(1)}>+</button>
      </span>
      <span class="live-status" role="status" data-status=${live.status.value}>${live.status.value}</span>
    </div>
    <p class="grid-summary">${site ? summary(site) : "Reading the site…"}</p>
    <${View} live=${live} />
    <${Legend} />
    <p class="grid-focus" id="grid-focus" role="status">${site && focused.value >= 0 ? described(site, focused.value) : html`<span>
      Arrow keys move, + and − zoom, Enter opens a host.</span>`}</p>
    ${site && chosen.value !== null && html`<${Host} live=${live} name=${chosen.value} changes=${changes.value}
      close=${() => (chosen.value = null)} />`}
  `;
}

/** @param {{live: Live}} props */
function View({ live }) {
  const view = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!view.current) return;
    grid = new Grid(
      view.current,
      (host) => (focused.value = host),
      (host) => (chosen.value = live.site?.names[host] ?? null),
    );
    Object.assign(globalThis, { grid }); // for measurements and tests
    changed(live, null, []);
  }, []);
  return html`<div class="grid-view" ref=${view} tabindex="0" role="application" aria-roledescription="grid of hosts"
    aria-label="Fill of all hosts" aria-describedby="grid-focus"></div>`;
}

function Legend() {
  const steps = [0, 25, 50, 75, 100];
  const paint = (/** @type {number} */ step) => (/** @type {HTMLElement | null} */ element) => {
    if (element) element.style.backgroundColor = css(ofFill(step / 100));
  };
  return html`<ul class="grid-legend" aria-label="Colours">
    ${steps.map((step) => html`<li><span class="swatch" ref=${paint(step)}></span> ${step} %</li>`)}
    <li><span class="swatch none"></span> without the class</li>
    <li><span class="swatch hatched"></span> disabled</li>
  </ul>`;
}

/** @param {import("./site.js").Site} site */
function summary(site) {
  if (!site.size) return "No hosts yet.";
  const number = site.size.toLocaleString();
  const hosts = found.value === null ? `${number} hosts` : `${found.value.toLocaleString()} of ${number} hosts found`;
  if (!className.value) return `${hosts}.`;
  const { capacity, used } = site.whole(className.value);
  return `${hosts}. ${className.value}: ${amounts(used, capacity, className.value)} used.`;
}

/** @param {import("./site.js").Site} site @param {number} host */
function described(site, host) {
  const name = site.names[host];
  const state = site.state(host) ? ", disabled" : "";
  const held = site.amounts(className.value, host);
  if (!held) return html`<bdi>${name}</bdi>: no ${className.value}${state}`;
  return html`<bdi>${name}</bdi>: ${className.value} ${amounts(held.used, held.capacity, className.value)} used${state}`;
}

/** @param {Live} live @param {Event} event */
function select(live, event) {
  className.value = valueOf(event);
  show(live);
}

/** @param {Live} live @param {Event} event */
function group(live, event) {
  grouping.value = /** @type {import("./layout.js").Grouping} */ (valueOf(event));
  show(live);
}

/** @param {Live} live */
function show(live) {
  if (live.site) grid?.show(live.site, className.value, grouping.value);
}

/** @param {Event} event */
function valueOf(event) {
  return /** @type {HTMLInputElement | HTMLSelectElement} */ (event.target).value;
}
