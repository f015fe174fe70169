/** Keeps relative times current, copies identifiers, and selects all rows. Without it, hovering shows texts in full. */
import { toast } from "./place.js";

/** Time between two updates, in milliseconds. */
const PAUSE = 15_000;

/** Lengths in seconds, as in `rendering.py`. @type {[number, string][]} */
const UNITS = [[86_400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** Begin, for all that the page has now and later. */
export function start() {
  document.documentElement.classList.add("scripted");
  setInterval(() => {
    if (!document.hidden) for (const time of document.querySelectorAll("time[datetime]")) show(time);
  }, PAUSE);
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-copy]");
    if (button) void copy(button, button.getAttribute("data-copy") ?? "");
  });
  document.addEventListener("change", ({ target }) => {
    if (!(target instanceof HTMLInputElement) || !target.dataset.all) return;
    for (const box of document.querySelectorAll(`input[name="${target.dataset.all}"]`)) if (box instanceof HTMLInputElement) box.checked = target.checked;
  });
}

/** @param {Element} time */
function show(time) {
  if (!/(ago$|^in )/.test(time.textContent ?? "")) return; // a date stays one
  const seconds = (Date.now() - Date.parse(time.getAttribute("datetime") ?? "")) / 1000;
  const [length, unit] = UNITS.find(([of]) => Math.abs(seconds) >= of) ?? [1, "s"];
  const words = `${Math.floor(Math.abs(seconds) / length)}\u202f${unit}`;
  time.textContent = seconds < 0 ? `in ${words}` : `${words} ago`;
}

/** @param {Element} button @param {string} text */
async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    if (!button.matches(".copy")) toast("Copied");
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 1500);
  } catch {
    // Without TLS, browsers offer no clipboard: the text is selected, to be copied by hand.
    const code = button.parentElement?.querySelector(`[title="${text}"]`);
    if (code) {
      code.textContent = text;
      getSelection()?.selectAllChildren(code);
    }
  }
}
