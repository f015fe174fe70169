/** The Activity page: changed consumers and providers per second, and the trees that changed last. */
import { html } from "./html.js";
import { searchPage } from "./place.js";
import { reread } from "./reread.js";
import { useEffect, useRef } from "./vendor/hooks.js";
import { render } from "./vendor/preact.js";
import { effect, signal } from "./vendor/signals.js";
import uPlot from "./vendor/uplot.js";

/** @typedef {import("./live.js").Live} Live */
/** @typedef {import("./site.js").Message} Message */

const SECONDS = 300;
const ROWS = 10;

/** Milliseconds between two reads of the counts. */
const PAUSE_OF_COUNTS = 5000;

/** Second, changed consumers and providers, as many as are shown. Null: the page was not connected. */
export const times = /** @type {number[]} */ ([]);
export const consumers = /** @type {(number | null)[]} */ ([]);
const providers = /** @type {(number | null)[]} */ ([]);
/** @type {[number[], (number | null)[], (number | null)[]]} */
const columns = [times, consumers, providers];

/** The first second whose changes are known. */
let knownSince = Infinity;

const latest = signal(/** @type {{time: string, name: string, used: string}[]} */ ([]));
const ticks = signal(0);
let isDue = false;

/** Draw into *root*. @param {HTMLElement} root @param {Live} live */
export function start(root, live) {
  root.replaceChildren();
  render(html`<${Page} live=${live} />`, root);
  effect(() => {
    advance();
    // The first message has the changes of minutes.
    knownSince = ["live", "polling"].includes(live.status.value) ? now() + 2 : Infinity;
  });
  setInterval(() => {
    if (!document.hidden) advance();
  }, 1000);
}

/** Read the counts again, soon. */
function readCounts() {
  if (isDue) return;
  isDue = true;
  setTimeout(() => {
    isDue = false;
    if (!document.hidden) void reread("#counts", `${location.pathname}?part=counts`);
  }, PAUSE_OF_COUNTS);
}

/** Count a message. @param {Message | null} message */
export function changed(message) {
  readCounts();
  if (!message) return;
  advance();
  add(consumers, message.consumer_count);
  add(providers, message.provider_count);
  const time = new Date().toLocaleTimeString();
  const { name: names, used } = message.trees;
  const rows = names.slice(-ROWS).map((name, place) => {
    const at = Math.max(0, names.length - ROWS) + place;
    const amounts = Object.entries(used).flatMap(([of, values]) => (values[at] <= 0 ? [] : [`${of} ${values[at].toLocaleString()}`]));
    return { time, name, used: amounts.join(", ") || "nothing" };
  });
  latest.value = [...rows.reverse(), ...latest.value].slice(0, ROWS);
  ticks.value += 1;
}

/** @param {(number | null)[]} column @param {number} number */
function add(column, number) {
  const before = column.pop() ?? null;
  column.push(before === null ? null : before + number);
}

/** Begin new seconds. */
function advance() {
  const end = now();
  for (let second = Math.max((times.at(-1) ?? 0) + 1, end - SECONDS + 1); second <= end; second++) {
    const number = second < knownSince ? null : 0;
    times.push(second);
    consumers.push(number);
    providers.push(number);
  }
  for (const column of columns) column.splice(0, column.length - SECONDS);
  ticks.value = end;
}

const now = () => Math.floor(Date.now() / 1000);

/** @param {{live: Live}} props */
function Page({ live }) {
  ticks.value;
  const recent = consumers.slice(-11, -1).filter((number) => number !== null);
  const rate = recent.length ? (recent.reduce((sum, number) => sum + number, 0) / recent.length).toFixed(1) : "–";
  return html`
    <p>Claims and releases per second, all workers: <strong>${rate}</strong> (last 10 s)${" "}
      <span class="live-status" role="status" data-status=${live.status.value}>${live.status.value}</span></p>
    <${Plot} ticks=${ticks.value} />
    <div class="scrolls" tabindex="0" role="region" aria-label="Latest changes"><table>
      <caption>Latest changes of use</caption>
      <thead><tr><th scope="col">Time</th><th scope="col">Host</th><th scope="col">Used</th></tr></thead>
      <tbody>${latest.value.map(({ time, name, used }) => html`<tr><td>${time}</td>
        <th scope="row"><a href=${searchPage(name)}><bdi>${name}</bdi></a></th><td>${used}</td></tr>`)}</tbody>
    </table></div>
    ${!latest.value.length && html`<p class="quiet">No changes since the page was opened.</p>`}
  `;
}

/** @param {{ticks: number}} props */
function Plot({ ticks: count }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {uPlot | null} */ (null));
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const ink = getComputedStyle(element).color;
    const axis = { stroke: ink, grid: { stroke: "#8884", width: 1 } };
    const made = new uPlot(
      {
        width: element.clientWidth || 300,
        height: 180,
        legend: { show: false },
        cursor: { show: false },
        axes: [axis, axis],
        scales: { y: { range: (_, __, most) => [0, Math.max(10, most)] } },
        series: [{}, { stroke: ink, width: 1.5 }, { stroke: ink, width: 1, dash: [4, 4] }],
      },
      columns,
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth || 300, height: 180 }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(columns), [count]);
  return html`<div class="plot" ref=${place} role="img"
    aria-label="Claims and releases (solid) and changed providers (dashed) per second, over the last five minutes. Empty while not connected."></div>`;
}
