/** The command palette (Ctrl-K) and the list of keys (?), on every page. Loaded when it is opened first. */
import { addStyle, copied, page } from "./place.js";

/** @typedef {import("./live.js").Live} Live */
/** @typedef {{text: string, kind: string, run: string | (() => void)}} Entry a `run` that is a text is an address */

/** Entries of one kind. */
const MOST = 8;

/** Milliseconds between a key and the request for what it finds. */
const PAUSE = 120;

const KEYS = [
  ["Ctrl K or ⌘ K", "Find a host, a consumer, a flavor, an action"],
  ["/", "Find hosts on the Site page"],
  ["?", "This list"],
  ["Arrow keys, Home, End, Page Up, Page Down", "Move in the map"],
  ["Enter", "Open the host in the map"],
  ["Space, Shift + arrows, Shift + drag", "Select hosts in the map"],
  ["+, −, 0", "Larger cells, smaller cells, all hosts"],
  ["Escape", "Close, or clear the selection"],
];

const dialog = document.createElement("dialog");
dialog.className = "palette";
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
addStyle("./live.css");
document.body.append(dialog);

/** Show the list of keys. */
export function showKeys() {
  const title = Object.assign(document.createElement("h2"), { textContent: "Keys" });
  const list = Object.assign(document.createElement("dl"), { className: "facts" });
  for (const [key, words] of KEYS) {
    const term = document.createElement("dt");
    term.append(Object.assign(document.createElement("kbd"), { textContent: key }));
    list.append(term, Object.assign(document.createElement("dd"), { textContent: words }));
  }
  const box = Object.assign(document.createElement("div"), { className: "keys" });
  const close = Object.assign(document.createElement("button"), { className: "plain", textContent: "Close" });
  close.addEventListener("click", () => dialog.close());
  box.append(title, list, close);
  open("Keys", box);
}

/** Show the palette. @param {Live} live */
export function show(live) {
  const field = Object.assign(document.createElement("input"), { type: "text", placeholder: "Host, consumer, flavor, project, or action", autocomplete: "off" });
  const list = Object.assign(document.createElement("ul"), { id: "palette-list" });
  const attributes = { role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-autocomplete": "list", "aria-label": "Find" };
  for (const [name, value] of Object.entries(attributes)) field.setAttribute(name, value);
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Found");
  const hint = Object.assign(document.createElement("p"), { textContent: "↑ ↓ choose, Enter opens, Escape closes" });
  /** @type {Entry[]} */
  let entries = [];
  let chosen = 0;
  let asked = 0;

  const mark = () => {
    for (const [place, item] of [...list.children].entries()) item.setAttribute("aria-selected", String(place === chosen));
    field.setAttribute("aria-activedescendant", list.children[chosen]?.id ?? "");
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };
  const draw = () => {
    list.replaceChildren(...entries.map((entry, place) => {
      const item = Object.assign(document.createElement("li"), { id: `palette-${place}` });
      item.setAttribute("role", "option");
      const text = Object.assign(document.createElement("bdi"), { textContent: entry.text });
      item.append(text, Object.assign(document.createElement("small"), { textContent: entry.kind }));
      item.addEventListener("click", () => run(entry));
      return item;
    }));
    chosen = 0;
    mark();
  };
  const find = async () => {
    const turn = ++asked;
    const text = field.value.trim();
    entries = [...actions().filter((entry) => matches(entry.text, text)), ...named(text)];
    draw();
    if (!text) return;
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    if (turn !== asked) return;
    const found = (await Promise.all([hosts(live, text), flavors(live, text)])).flat();
    if (turn !== asked) return;
    entries = [...found, ...entries];
    draw();
  };
  field.addEventListener("input", () => void find());
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && entries.length) {
      chosen = (chosen + step + entries.length) % entries.length;
      mark();
    } else if (event.key === "Enter" && entries[chosen]) run(entries[chosen]);
    else return;
    event.preventDefault();
  });
  const box = document.createElement("div");
  box.append(field, list, hint);
  open("Find", box);
  field.focus();
  void find();
}

/** @param {string} label @param {HTMLElement} content */
function open(label, content) {
  dialog.setAttribute("aria-label", label);
  dialog.replaceChildren(content);
  if (!dialog.open) dialog.showModal();
}

/** @param {Entry} entry */
function run({ run: what }) {
  dialog.close();
  if (typeof what === "string") location.assign(what);
  else what();
}

/** @param {string} text @param {string} part */
const matches = (text, part) => text.toLowerCase().includes(part.toLowerCase());

/** @returns {Entry[]} */
function actions() {
  const pages = /** @type {const} */ ([["Site", ""], ["Ask", "ask"], ["Consumers", "consumers"], ["Activity", "activity"]]);
  const signOut = document.querySelector("form.who");
  return [
    ...pages.map(([text, path]) => ({ text, kind: "page", run: page(path) })),
    { text: "Disabled hosts", kind: "page", run: page("?state=disabled") },
    { text: "Copy the address of this page", kind: "action", run: () => copied(location.href) },
    { text: "Print this page", kind: "action", run: () => print() },
    { text: "Keys", kind: "action", run: () => setTimeout(showKeys) },
    ...(signOut instanceof HTMLFormElement ? [{ text: "Sign out", kind: "action", run: () => signOut.requestSubmit() }] : []),
  ];
}

/** What a text may name that cannot be looked up by a part of it. @param {string} text @returns {Entry[]} */
function named(text) {
  if (!text) return [];
  const value = encodeURIComponent(text);
  if (/^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$/i.test(text)) return [{ text, kind: "consumer", run: page(`consumers?consumer=${value}`) }];
  return [{ text: `Consumers of project ${text}`, kind: "consumers", run: page(`consumers?project_id=${value}`) }];
}

/** @param {Live} live @param {string} text @returns {Promise<Entry[]>} */
async function hosts(live, text) {
  const here = live.site?.names.filter((name) => matches(name, text)).slice(0, MOST);
  if (here) return here.map((name) => ({ text: name, kind: "host", run: page(`?host=${encodeURIComponent(name)}`) }));
  const query = `/provider_trees?limit=${MOST}&depth=0&fields=uuid,name&name=${encodeURIComponent(`*${text.replaceAll("*", "")}*`)}`;
  const read = await live.json(query).catch(() => ({ provider_trees: [] }));
  return read.provider_trees.flatMap((/** @type {any} */ tree) => (tree.providers ?? []).map((/** @type {any} */ each) => ({ text: each.name, kind: "host", run: page(`providers/${each.uuid}`) })));
}

/** @param {Live} live @param {string} text @returns {Promise<Entry[]>} */
async function flavors(live, text) {
  const read = await live.json("/flavors").catch(() => ({ flavors: [] }));
  const names = read.flavors.map((/** @type {{name: string}} */ { name }) => name);
  return names.filter((/** @type {string} */ name) => matches(name, text)).slice(0, MOST)
    .map((/** @type {string} */ name) => ({ text: name, kind: "flavor: ask", run: page(`ask?flavor=${encodeURIComponent(name)}`) }));
}
