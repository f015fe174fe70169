/** The flavors of the Site page: reads them again, and draws the course of each since the page was opened. */
import { number } from "./amounts.js";
import { html } from "./html.js";
import { reread } from "./reread.js";
import { render } from "./vendor/preact.js";

/** @typedef {{time: number, least: number, most: number}} Sample */

/** Time between two reads, in milliseconds. */
const PAUSE = 10_000;

/** Samples of each flavor: those of one hour. */
const MOST = 360;

/** @type {Map<string, Sample[]>} */
const courses = new Map();

/** Take the numbers that the page has, then read them again and again. */
export function start() {
  show();
  setInterval(() => void follow(), PAUSE);
}

/** Read the numbers now, except in the background. A number is a sample only if the server confirmed it. */
async function follow() {
  if (!document.hidden && (await reread("#flavors", `${location.pathname}?part=flavors`))) show();
}

function show() {
  const time = Date.now();
  for (const cell of document.querySelectorAll("#flavors .course")) cell.removeAttribute("hidden");
  for (const row of document.querySelectorAll("#flavors [data-flavor]")) {
    if (!(row instanceof HTMLElement)) continue;
    const name = row.dataset.flavor ?? "";
    const course = courses.get(name) ?? kept(row.dataset.course ?? "");
    course.push({ time, least: Number(row.dataset.least), most: Number(row.dataset.most) });
    courses.set(name, course.slice(-MOST));
    const cell = row.querySelector(".course");
    if (cell) render(html`<${Course} course=${course} />`, cell);
  }
}

/** What the server kept: seconds and amounts. @param {string} text @returns {Sample[]} */
const kept = (text) => [...text.matchAll(/(\d+) (\d+)/g)].map(([, time, at]) => ({ time: 1000 * +time, least: +at, most: +at }));

/** A band between the two bounds, which is a line where they are the same. @param {{course: Sample[]}} props */
function Course({ course }) {
  const first = course[0], last = course.at(-1);
  if (!first || !last) return null;
  const lowest = Math.min(...course.map(({ least }) => least));
  const range = Math.max(...course.map(({ most }) => most)) - lowest;
  const at = (/** @type {number} */ time, /** @type {number} */ value) =>
    `${((100 * (time - first.time)) / (last.time - first.time || 1)).toFixed(1)},${(range ? 18 - (16 * (value - lowest)) / range : 10).toFixed(1)}`;
  const samples = course.length > 1 ? course : [first, { ...first, time: first.time + 1 }];
  const points = [...samples.map(({ time, most }) => at(time, most)), ...samples.map(({ time, least }) => at(time, least)).reverse()];
  const change = last.least - first.least;
  const words = change ? `${change > 0 ? "+" : "−"}${number(Math.abs(change))}` : "±0";
  return html`<svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true"><polygon points=${points.join(" ")} /></svg> ${words}`;
}
