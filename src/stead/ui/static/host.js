/** The drawer beside the map: one host as the server draws it, with an address, without leaving the map. */

const drawer = document.getElementById("drawer");

/** Where the focus was when the drawer was opened. @type {HTMLElement | null} */
let before = null;

/** The host that is shown. */
export const shown = () => new URLSearchParams(location.search).get("host");

/** Show a host; null closes the drawer. @param {string | null} name @param {boolean} [isNew] in the history of the browser */
export async function show(name, isNew = true) {
  if (!drawer) return;
  const address = new URL(location.href);
  if (name === null) address.searchParams.delete("host");
  else address.searchParams.set("host", name);
  if (isNew && address.href !== location.href) history.pushState(null, "", address);
  if (name === null) {
    drawer.hidden = true;
    drawer.replaceChildren();
    before?.focus({ preventScroll: true });
    before = null;
    return;
  }
  if (drawer.hidden) before = document.activeElement instanceof HTMLElement ? document.activeElement : null;
  await read(name);
  drawer.querySelector("h2")?.focus({ preventScroll: true });
}

/** Read the host that is shown again, after a change. */
export function follow() {
  const name = shown();
  if (name !== null && drawer && !drawer.hidden) void read(name);
}

/** @param {string} name */
async function read(name) {
  const address = new URL(location.href);
  address.searchParams.set("part", "host");
  const answer = await fetch(address, { credentials: "same-origin" }).catch(() => null);
  if (!drawer || shown() !== name) return;
  const page = answer?.ok && !answer.redirected ? await answer.text() : null;
  if (page === null) {
    drawer.textContent = answer?.status === 404 ? `${name} does not exist any more.` : "The server did not answer. Reload the page.";
  } else {
    const next = new DOMParser().parseFromString(page, "text/html").body;
    if (next.innerHTML !== drawer.innerHTML) drawer.replaceChildren(...next.childNodes);
  }
  drawer.hidden = false;
}

addEventListener("popstate", () => void show(shown(), false));
drawer?.addEventListener("click", (event) => {
  if (!(event.target instanceof Element) || !event.target.closest(".close")) return;
  event.preventDefault();
  void show(null);
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && drawer && !drawer.hidden && !document.querySelector("dialog[open]")) void show(null);
});
