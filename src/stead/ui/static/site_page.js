/** The map of the Site page, its controls, and what is shown beside it. */
import { amount, amounts, number } from "./amounts.js";
import { Grid } from "./grid.js";
import { html } from "./html.js";
import * as drawer from "./host.js";
import { GROUPINGS, MOST_TILES } from "./layout.js";
import { reread } from "./reread.js";
import { search, suggested } from "./search.js";
import { useEffect, useRef } from "./vendor/hooks.js";
import { render } from "./vendor/preact.js";
import { effect, signal } from "./vendor/signals.js";

/** @typedef {import("./live.js").Live} Live */
/** @typedef {import("./site.js").Message} Message */
/** @typedef {import("./site.js").Site} Site */
/** @typedef {import("./paint.js").Paint} Paint */
/** @typedef {import("./paint.js").Flavor} Flavor */

const GROUP_NAMES = { none: "No groups", prefix: "Name prefix", aggregate: "Aggregate", traits: "Traits" };
/** @type {Record<string, string>} */
const COLOURS = { used: "Used", free: "Free", fit: "Where a flavor fits", stranded: "Stranded by a flavor", age: "Last written" };

/** Milliseconds between two reads of what is not in the messages about changes. */
const PAUSE = 5000;

/** Milliseconds between two reads of the answer. */
const PAUSE_OF_ANSWER = 15_000;

/** Classes in the card of a host. */
const IN_CARD = 7;

const address = new URLSearchParams(location.search);

/** The words that the server has filtered by already. */
const given = address.getAll("search").join(" ") + (address.get("state") === "disabled" ? " disabled" : "");

/** The number of changes so far: what depends on numbers of the site reads it. */
const changes = signal(0);
const className = signal("");
const grouping = signal(/** @type {import("./layout.js").Grouping} */ ("none"));
const colour = signal("used");
const flavors = signal(/** @type {Flavor[]} */ ([]));
const flavor = signal("");
const paint = signal(/** @type {Paint | null} */ (null));
const query = signal("");
const found = signal(/** @type {number | null} */ (null));
const focused = signal(-1);
const pointer = signal(/** @type {{x: number, y: number} | null} */ (null));
const selection = signal(/** @type {Set<number>} */ (new Set()));

/** @type {Grid | null} */
let grid = null;

/** The height of the map until it is drawn: that of the skeleton. */
let height = "";

/** When what else is shown was read, and whether this is due. */
let lastRead = -Infinity;
let isDue = false;

/** Draw into *root*. @param {HTMLElement} root @param {Live} live */
export function start(root, live) {
  className.value = root.dataset.first ?? "";
  const skeleton = root.querySelector(".skeleton");
  const reserved = skeleton?.lastElementChild;
  if (reserved instanceof HTMLElement) height = `${reserved.offsetHeight}px`;
  const place = document.createElement("div");
  root.append(place);
  const stop = effect(() => {
    changes.value;
    if (!live.site || root.hidden) return;
    skeleton?.remove(); // at once with the map, so that nothing jumps
    render(html`<${Page} live=${live} />`, place);
    queueMicrotask(() => stop());
  });
  effect(() => {
    changes.value; // a search by free amounts depends on the sums
    if (!live.site || !grid) return;
    const hosts = search(live.site, `${given} ${query.value}`);
    found.value = hosts ? hosts.reduce((sum, one) => sum + one, 0) : null;
    grid.highlight(hosts);
  });
  const field = document.querySelector(".search input");
  const list = document.getElementById("suggestions");
  if (field instanceof HTMLInputElement && list) {
    field.addEventListener("input", () => {
      query.value = field.value;
      const texts = live.site ? suggested(live.site, field.value) : [];
      list.replaceChildren(...texts.map((text) => Object.assign(document.createElement("option"), { value: text })));
    });
  }
  setInterval(() => {
    const isWhole = document.querySelector(".chips") === null;
    if (!document.hidden && isWhole) void reread("#answer", `${location.pathname}?part=answer`);
  }, PAUSE_OF_ANSWER);
  document.querySelector("#sums")?.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("[data-meter]") : null;
    if (!(link instanceof HTMLElement) || !live.site) return;
    event.preventDefault();
    className.value = link.dataset.meter ?? "";
    if (colour.value !== "free") colour.value = "used";
    show(live);
  });
}

/** Show what changed. @param {Live} live @param {Message | null} message @param {number[]} hosts */
export function changed(live, message, hosts) {
  const site = live.site;
  if (!site) return;
  if (site.size && document.getElementById("grid")?.hidden) location.reload(); // the page of a site without hosts has no map
  const classes = site.classes();
  if (!classes.includes(className.value)) className.value = classes[0] ?? "";
  changes.value += 1;
  if (!grid) return;
  if (message) grid.update(hosts);
  else show(live);
  readLater(live);
  drawer.follow();
}

/** Read what is not in messages again, soon. @param {Live} live */
function readLater(live) {
  if (isDue) return;
  isDue = true;
  setTimeout(() => {
    isDue = false;
    if (!document.hidden) void readMore(live);
  }, Math.max(0, lastRead + PAUSE - performance.now()));
}

/** Read what the map shows beside the sums. @param {Live} live */
async function readMore(live) {
  const site = live.site;
  if (!site || !grid) return;
  lastRead = performance.now();
  if (site.size <= MOST_TILES) {
    const { painter, read } = await import("./tiles.js");
    const hosts = await read(live).catch(() => null);
    if (hosts) grid.parts = painter(hosts, grid, className.value);
  } else grid.parts = null;
  const kind = colour.value;
  if (kind === "used" || kind === "free") paint.value = null;
  else {
    const { flavors: readFlavors, painted } = await import("./paint.js");
    if (kind !== "age") flavors.value = await readFlavors(live).catch(() => []);
    if (!flavors.value.some(({ name }) => name === flavor.value)) flavor.value = flavors.value[0]?.name ?? "";
    const of = flavors.value.find(({ name }) => name === flavor.value);
    paint.value = await painted(live, kind, className.value, of).catch(() => null);
  }
  draw(live);
}

/** Show the site with other settings. @param {Live} live */
function show(live) {
  paint.value = null;
  draw(live);
  void readMore(live);
}

/** @param {Live} live */
function draw(live) {
  const site = live.site;
  if (!site || !grid) return;
  const of = className.value;
  const { levelOf, textOf } = paint.value ?? {
    levelOf: (/** @type {number} */ host) => site.level(of, host),
    textOf: (/** @type {number} */ host) => {
      const held = site.amounts(of, host);
      if (!held) return "–";
      return colour.value === "free" ? amount(held.capacity - held.used, of) : `${site.level(of, host)}\u202f%`;
    },
  };
  grid.show(site, grouping.value, levelOf, textOf);
  for (const link of document.querySelectorAll("[data-meter]")) {
    if (link instanceof HTMLElement && link.dataset.meter === of) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

/** @param {{live: Live}} props */
function Page({ live }) {
  changes.value;
  const site = live.site;
  const needsFlavor = colour.value === "fit" || colour.value === "stranded";
  /** @param {import("./vendor/signals.js").Signal<any>} setting */
  const set = (setting) => (/** @type {Event} */ event) => {
    setting.value = /** @type {HTMLSelectElement} */ (event.target).value;
    show(live);
  };
  return html`
    <div class="grid-tools" role="group" aria-label="Map">
      <label>Colour
        <select value=${colour.value} onChange=${set(colour)}>
          ${Object.entries(COLOURS).map(([value, words]) => html`<option value=${value}>${words}</option>`)}
        </select>
      </label>
      ${needsFlavor && html`<label>Flavor
        <select value=${flavor.value} onChange=${set(flavor)}>
          ${flavors.value.map(({ name }) => html`<option value=${name}>${name}</option>`)}
        </select>
      </label>`}
      ${colour.value !== "fit" && colour.value !== "age" && html`<label>Class
        <select value=${className.value} onChange=${set(className)}>
          ${site && Object.keys(site.sums).map((name) => html`<option value=${name}>${name}</option>`)}
        </select>
      </label>`}
      <label>Group by
        <select value=${grouping.value} onChange=${set(grouping)}>
          ${GROUPINGS.map((name) => html`<option value=${name}>${GROUP_NAMES[name]}</option>`)}
        </select>
      </label>
      <span class="grid-zoom">
        <button type="button" aria-label="Smaller cells" onClick=${() => grid?.zoom(-1)}>−</button>
        <button type="button" aria-label="Fit all hosts" onClick=${() => grid?.zoom(0)}>Fit</button>
        <button type="button" aria-label="Larger cells" onClick=${() => grid?.zoom(1)}>+</button>
      </span>
      <span class="live-status" role="status" data-status=${live.status.value}>${live.status.value}</span>
      <${Legend} site=${site} />
    </div>
    <div class="grid-box">
      <${View} live=${live} />
      ${site && pointer.value && focused.value >= 0 && html`<${Card} site=${site} host=${focused.value} at=${pointer.value} />`}
      ${site && selection.value.size > 0 && html`<${Selection} site=${site} />`}
    </div>
    <p class="grid-focus" id="grid-focus" role="status">${site && focused.value >= 0 ? described(site, focused.value) : site ? summary(site) : ""}</p>
  `;
}

/** @param {{live: Live}} props */
function View({ live }) {
  const view = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!view.current) return;
    grid = new Grid(view.current, {
      focused: (host, event) => {
        const box = view.current?.getBoundingClientRect();
        focused.value = host;
        pointer.value = host >= 0 && event && box && event.pointerType === "mouse" ? { x: event.clientX - box.left, y: event.clientY - box.top } : null;
      },
      chosen: (host) => void drawer.show(live.site?.names[host] ?? null),
      selected: (hosts) => (selection.value = hosts),
    });
    Object.assign(globalThis, { grid }); // for measurements and tests
    show(live);
    changes.value += 1; // the search
  }, []);
  return html`<div class="grid-view" style=${{ height }} ref=${view} tabindex="0" role="application" aria-roledescription="map of hosts"
    aria-label="Map of all hosts" aria-describedby="grid-focus"></div>`;
}

/** @param {{site: Site | null}} props */
function Legend({ site }) {
  const [least, most] = paint.value?.ends ?? ["empty", "full"];
  const isClass = !paint.value && site?.names.some((_, host) => site.place(className.value, host) < 0);
  const hasDisabled = site?.columns.providers.disabled.state.some((state) => state >= 0);
  return html`<ul class="grid-legend" aria-label="Legend">
    <li>${least}<span class="ramp"></span>${most}</li>
    ${isClass && html`<li><span class="swatch none"></span> without</li>`}
    ${hasDisabled && html`<li><span class="swatch hatched"></span> disabled</li>`}
  </ul>`;
}

/** @param {Site} site @param {number} host */
function heldBy(site, host) {
  return Object.keys(site.sums).flatMap((of) => {
    const held = site.amounts(of, host);
    return held ? [{ of, ...held }] : [];
  });
}

/** A line with a bar. @param {{of: string, used: number, capacity: number}} props */
function Held({ of, used, capacity }) {
  const fill = capacity > 0 ? Math.min(100, Math.max(0, (100 * used) / capacity)) : 0;
  return html`<p class="held"><span>${of}</span><svg class="bar" preserveAspectRatio="none" aria-hidden="true"><rect
    class=${`f${Math.round(fill / 10)}`} width=${`${fill}%`} height="100%" /></svg><span class="n">${amount(capacity - used, of)} free</span></p>`;
}

/** The host below the pointer. The line below the map has the same for all readers. @param {{site: Site, host: number, at: {x: number, y: number}}} props */
function Card({ site, host, at }) {
  const card = useRef(/** @type {HTMLElement | null} */ (null));
  const state = site.state(host);
  const held = heldBy(site, host);
  useEffect(() => {
    const element = card.current, box = element?.parentElement;
    if (!element || !box) return;
    const fits = at.x + 16 + element.offsetWidth <= box.clientWidth;
    const left = fits ? at.x + 16 : Math.max(0, at.x - 16 - element.offsetWidth);
    const top = Math.max(0, Math.min(at.y + 16, box.clientHeight - element.offsetHeight));
    element.style.transform = `translate(${left}px, ${top}px)`; // other properties would count as a shift of the layout
  });
  return html`<div class="hover-card" ref=${card} aria-hidden="true"><b><bdi>${site.names[host]}</bdi></b>
    ${state && html`<p class="warning">disabled: ${state.reason ?? "no reason"}</p>`}
    ${paint.value && html`<p>${COLOURS[colour.value]}: ${paint.value.textOf(host)}</p>`}
    ${held.slice(0, IN_CARD).map((each) => html`<${Held} ...${each} />`)}
    ${held.length > IN_CARD && html`<p class="quiet">and ${held.length - IN_CARD} more classes</p>`}</div>`;
}

/** Sums of the hosts that are selected. @param {{site: Site}} props */
function Selection({ site }) {
  changes.value;
  const hosts = [...selection.value];
  const sums = Object.keys(site.sums).map((of) => {
    const held = hosts.map((host) => site.amounts(of, host)).filter((each) => each !== null);
    const add = (/** @type {"used" | "capacity"} */ key) => held.reduce((sum, each) => sum + each[key], 0);
    return { of, used: add("used"), capacity: add("capacity") };
  });
  return html`<div class="selection" role="status"><b>${number(hosts.length)} ${hosts.length === 1 ? "host" : "hosts"}</b>
    ${sums.filter(({ capacity }) => capacity > 0).slice(0, 6).map(({ of, used, capacity }) => html`<span>${of} ${amounts(used, capacity, of)}</span>`)}
    <button type="button" class="plain" onClick=${() => grid?.select(new Set())}>Clear</button></div>`;
}

/** @param {Site} site */
function summary(site) {
  if (!site.size) return "No hosts yet.";
  const size = number(site.size);
  const hosts = found.value === null ? `${size} hosts` : `${number(found.value)} of ${size} hosts found`;
  if (!className.value) return `${hosts}.`;
  const { capacity, used } = site.whole(className.value);
  return `${hosts}. ${className.value}: ${amounts(used, capacity, className.value)} used. Arrow keys move, + and − zoom, Enter opens a host, Space or Shift selects.`;
}

/** @param {Site} site @param {number} host */
function described(site, host) {
  const name = site.names[host];
  const state = site.state(host) ? ", disabled" : "";
  if (paint.value) return html`<bdi>${name}</bdi>: ${COLOURS[colour.value]} ${paint.value.textOf(host)}${state}`;
  const held = site.amounts(className.value, host);
  if (!held) return html`<bdi>${name}</bdi>: no ${className.value}${state}`;
  return html`<bdi>${name}</bdi>: ${className.value} ${amounts(held.used, held.capacity, className.value)} used${state}`;
}
