/** The addresses that the server wrote into the page. */

const { api = "", root = "" } = document.body.dataset;

/** The prefix of the API's paths. */
export const API = api;

/** The Site page with only the hosts whose name has a text. @param {string} name */
export function searchPage(name) {
  return `${root}/ui/?search=${encodeURIComponent(name)}`;
}

/** Load a style sheet beside these scripts. @param {string} path */
export function addStyle(path) {
  const href = new URL(path, import.meta.url).href;
  if ([...document.styleSheets].some((sheet) => sheet.href === href)) return;
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href });
  document.head.append(link);
}

/** A page of the web interface. @param {string} path */
export const page = (path) => `${root}/ui/${path}`;

/** Milliseconds for which a toast is shown. */
const TOAST = 4000;

/** Say something at the foot of the page. @param {string} text */
export function toast(text) {
  const element = Object.assign(document.createElement("p"), { className: "toast", textContent: text });
  element.setAttribute("role", "status");
  document.body.append(element);
  setTimeout(() => element.remove(), TOAST);
}

/** Copy a text, and say so. @param {string} text */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`Copied: ${text.length > 60 ? `${text.slice(0, 60)}…` : text}`);
  } catch {
    toast("The browser allows no copy here. Select the text, and press Ctrl C.");
  }
}
