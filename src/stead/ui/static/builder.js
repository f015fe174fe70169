/**
 * The form of the Ask page as a builder: rows of amounts, chips of traits, cards of groups, and the query as text.
 *
 * The query is the state: pairs of keys and values. Every control reads them and writes others.
 */
import { html } from "./html.js";
import { API } from "./place.js";
import { render } from "./vendor/preact.js";
import { effect, signal } from "./vendor/signals.js";

/** @typedef {[string, string]} Pair */
/** @typedef {{name: string, words: string}} Class */

const pairs = signal(/** @type {Pair[]} */ ([]));

/** Groups that have nothing yet. */
const added = signal(/** @type {string[]} */ ([]));

const traits = signal(/** @type {string[]} */ ([]));
let isReading = false;

/** @type {Class[]} */
let classes = [];
let groupKeys = /** @type {string[]} */ ([]);
let requestKeys = /** @type {Record<string, string>} */ ({});
let groupKey = /(?:)/;

/** Units of the classes of memory and disk: what one of the unit is in units of the class. @type {Record<string, [string, number][]>} */
const UNITS = { _MB: [["MiB", 1], ["GiB", 1024], ["TiB", 1048576]], _GB: [["GiB", 1], ["TiB", 1024]] };

/** Put the builder in place of the plain fields of *form*. @param {HTMLFormElement} form */
export function start(form) {
  const place = form.querySelector("#builder"), plain = form.querySelector(".plain-fields");
  if (!(place instanceof HTMLElement) || !plain) return;
  const { classes: listed = "[]", groupKeys: inGroups = "[]", requestKeys: inRequest = "{}" } = place.dataset;
  [classes, groupKeys, requestKeys] = [JSON.parse(listed), JSON.parse(inGroups), JSON.parse(inRequest)];
  groupKey = new RegExp(`^(${groupKeys.join("|")})([a-zA-Z0-9_-]*)$`);
  pairs.value = parsed(place.dataset.query ?? "");
  plain.remove();
  const flavor = form.querySelector("[name=flavor]");
  flavor?.addEventListener("change", () => {
    if (flavor instanceof HTMLInputElement || flavor instanceof HTMLSelectElement) set("flavor", [flavor.value]);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const field = form.querySelector("[data-add]");
    if (field instanceof HTMLInputElement && field === document.activeElement && field.value.trim()) return;
    location.assign(`${form.action}?${spelled()}`);
  });
  effect(() => render(html`<${Builder} />`, place));
}

/** @param {string} text @returns {Pair[]} */
const parsed = (text) => [...new URLSearchParams(text.replace(/^.*\?/s, "").replace(/\s+/g, ""))].filter(([, value]) => value);

/** The query, in which only those characters are escaped that must be. */
function spelled() {
  const text = (/** @type {string} */ part) => encodeURIComponent(part).replace(/%(3A|2C|21|2F|28|29)/g, decodeURIComponent);
  return pairs.value.map(([key, value]) => `${text(key)}=${text(value)}`).join("&");
}

/** @param {string} key */
const get = (key) => pairs.value.flatMap(([name, value]) => (name === key ? [value] : []));

/** Replace the values of a key, where it first was. @param {string} key @param {string[]} values */
function set(key, values) {
  const place = pairs.value.findIndex(([name]) => name === key);
  const others = pairs.value.filter(([name]) => name !== key);
  const before = place < 0 ? others.length : pairs.value.slice(0, place).filter(([name]) => name !== key).length;
  const now = values.filter(Boolean).map((value) => /** @type {Pair} */ ([key, value]));
  pairs.value = withPolicy([...others.slice(0, before), ...now, ...others.slice(before)]);
}

/** Several groups need a policy. @param {Pair[]} next */
function withPolicy(next) {
  const has = (/** @type {string} */ key) => next.some(([name]) => name === key);
  const suffixes = new Set(next.flatMap(([key]) => (key in requestKeys ? [] : (groupKey.exec(key)?.[2] ?? []))).filter(Boolean));
  const needs = suffixes.size > 1 && !has("group_policy") && !has("isolate");
  return needs ? [...next, /** @type {Pair} */ (["group_policy", "none"])] : next;
}

/** The values of lists with commas. @param {string} key */
const terms = (key) => get(key).flatMap((value) => value.split(",")).filter(Boolean);

/** @returns {string[]} */
function suffixes() {
  const found = pairs.value.flatMap(([key]) => (key in requestKeys ? [] : (groupKey.exec(key)?.[2] ?? [])));
  return [...new Set(["", ...found, ...added.value])];
}

function Builder() {
  const groups = suffixes();
  return html`
    <div class="groups">${groups.map((suffix) => html`<${Group} key=${suffix} suffix=${suffix} several=${groups.length > 2} />`)}</div>
    <p><button type="button" class="plain" onClick=${() => addGroup(groups)}>Add a group</button>
      <span class="quiet"> A group comes from one provider, such as one NUMA node or one GPU.</span></p>
    <details class="rare" open=${Object.keys(requestKeys).some((key) => !HIDDEN.includes(key) && get(key).length)}>
      <summary>Conditions of the whole request</summary>
      <div class="row">${Object.entries(requestKeys).filter(([key]) => key !== "isolate").map(([key, label]) => html`<${Text} name=${key} label=${label} />`)}</div></details>
    <${Query} />
    <datalist id="all-traits">${traits.value.map((name) => html`<option>${name}</option>`)}</datalist>`;
}

/** Keys that other controls show. */
const HIDDEN = ["isolate", "same_subtree", "group_policy"];

/** @param {string[]} groups */
function addGroup(groups) {
  let number = 1;
  while (groups.includes(`_${number}`)) number++;
  added.value = [...added.value, `_${number}`];
}

/** @param {string} suffix */
function removeGroup(suffix) {
  added.value = added.value.filter((each) => each !== suffix);
  const kept = pairs.value.filter(([key]) => key in requestKeys || groupKey.exec(key)?.[2] !== suffix);
  pairs.value = kept.flatMap(([key, value]) => {
    if (key !== "same_subtree" && key !== "isolate") return [[key, value]];
    const left = value.split(",").filter((each) => each !== suffix);
    return left.length > (key === "isolate" ? 0 : 1) ? [[key, left.join(",")]] : [];
  });
}

/** @param {{suffix: string, several: boolean}} props */
function Group({ suffix, several }) {
  const key = `resources${suffix}`;
  const amounts = terms(key).map((term) => /** @type {Pair} */ (term.split(/:(.*)/s, 2)));
  const write = (/** @type {Pair[]} */ next) => set(key, [next.map(([name, amount]) => `${name}:${amount}`).join(",")]);
  const rare = groupKeys.filter((each) => each !== "resources" && each !== "required");
  return html`<fieldset class="group"><legend>${suffix ? html`Group <code>${suffix}</code> <button type="button" class="plain drop" aria-label=${`Remove group ${suffix}`} onClick=${() => removeGroup(suffix)}>×</button>` : "The host"}</legend>
    ${amounts.map(([name, amount = ""], place) => html`<${Row} name=${name} amount=${amount}
      write=${(/** @type {Pair | null} */ pair) => write(amounts.flatMap((each, at) => (at !== place ? [each] : pair ? [pair] : [])))} />`)}
    <${Add} suffix=${suffix} add=${(/** @type {Pair[]} */ more) => write([...amounts.filter(([name]) => !more.some(([of]) => of === name)), ...more])} />
    <${Traits} suffix=${suffix} />
    ${suffix && several && html`<p class="belongs"><${Belongs} suffix=${suffix} name="same_subtree" label="near" title="Below one provider with the other groups that have this mark, such as a NUMA node" />
      <${Belongs} suffix=${suffix} name="isolate" label="apart" title="On a provider that no other group uses" /></p>`}
    <details class="rare" open=${rare.some((each) => get(each + suffix).length)}><summary>Aggregates and trees</summary>
      <div class="row">${rare.map((each) => html`<${Text} name=${each + suffix} label=${LABELS[each] ?? each} />`)}</div></details>
  </fieldset>`;
}

/** @type {Record<string, string>} */
const LABELS = { member_of: "Aggregates", in_tree: "In tree", in_subtree: "Below" };

/** One amount. @param {{name: string, amount: string, write: (pair: Pair | null) => void}} props */
function Row({ name, amount, write }) {
  const units = UNITS[name.slice(-3)] ?? [["", 1]];
  const whole = /^\d+$/.test(amount) ? Number(amount) : NaN;
  const [unit, size] = units.findLast(([, of]) => whole && whole % of === 0) ?? units[0];
  const words = classes.find((each) => each.name === name)?.words ?? name;
  const to = (/** @type {number} */ number) => write([name, String(Math.max(1, number) * size)]);
  const typed = (/** @type {{currentTarget: HTMLInputElement}} */ { currentTarget: field }) => {
    // Digits only: "1.000" is one thing to a German reader and another to an English one.
    const text = field.value.replace(/[\s\u202f]/g, "");
    field.setCustomValidity(/^\d+$/.test(text) && Number(text) > 0 ? "" : "Digits only, at least 1; choose a smaller unit for a fraction");
    if (field.reportValidity()) to(Number(text));
  };
  const changeUnit = (/** @type {{currentTarget: HTMLSelectElement}} */ { currentTarget }) =>
    write([name, String((whole / size) * (units.find(([each]) => each === currentTarget.value)?.[1] ?? 1))]);
  return html`<div class="amount"><span title=${name}>${words}${words !== name && html` <small class="quiet">${name}</small>`}</span>
    <button type="button" class="plain" aria-label=${`Less ${words}`} onClick=${() => to(whole / size - 1)}>−</button>
    <input inputmode="numeric" aria-label=${`Amount of ${words}`} value=${Number.isNaN(whole) ? amount : whole / size} onChange=${typed} />
    <button type="button" class="plain" aria-label=${`More ${words}`} onClick=${() => to(whole / size + 1)}>+</button>
    ${units.length > 1 ? html`<select aria-label=${`Unit of ${words}`} value=${unit} onChange=${changeUnit}>${units.map(([each]) => html`<option>${each}</option>`)}</select>` : html`<span></span>`}
    <button type="button" class="plain drop" aria-label=${`Remove ${words}`} onClick=${() => write(null)}>×</button></div>`;
}

/** A field that takes `VCPU:8`, `8 VCPU` or several of them. @param {{suffix: string, add: (more: Pair[]) => void}} props */
function Add({ suffix, add }) {
  const enter = (/** @type {HTMLInputElement} */ field) => {
    const more = read(field.value);
    field.setCustomValidity(more.length || !field.value.trim() ? "" : "Write a class and an amount: VCPU:8, or 16 GiB memory");
    if (!field.reportValidity() || !more.length) return;
    add(more);
    field.value = "";
  };
  return html`<p class="row add"><input data-add aria-label=${`Add amounts${suffix && ` to group ${suffix}`}`} list="classes" placeholder="Add: VCPU:8, 16 GiB memory, PGPU"
      onKeyDown=${(/** @type {KeyboardEvent & {currentTarget: HTMLInputElement}} */ event) => {
        if (event.key !== "Enter" || !event.currentTarget.value.trim()) return;
        event.preventDefault();
        enter(event.currentTarget);
      }} onChange=${(/** @type {{currentTarget: HTMLInputElement}} */ { currentTarget }) => enter(currentTarget)} />
    <datalist id="classes">${classes.map(({ name, words }) => html`<option value=${name}>${words}</option>`)}</datalist></p>`;
}

/** Amounts in a text. @param {string} text @returns {Pair[]} */
export function read(text) {
  return text.split(/[,;&]/).flatMap((part) => {
    const word = part.replace(/^resources\w*=/, "").trim();
    const unit = /(\d)\s*([MGT])i?B\b/i.exec(word);
    const number = /(?:^|[\s:])(\d+)/.exec(word)?.[1] ?? "1";
    const of = word.replace(/(^|[\s:])\d+/, " ").replace(/\b[MGT]i?B\b/i, " ").replace(/[:\s]+/g, " ").trim().toLowerCase();
    const found = classes.find(({ name, words }) => [name, words, words.replace(/s$/, "")].some((each) => each.toLowerCase() === of));
    const name = found?.name ?? (/^[a-z][a-z0-9_]*$/.test(of) ? of.toUpperCase() : "");
    if (!name || Number(number) < 1) return [];
    const size = unit ? UNITS[name.slice(-3)]?.find(([each]) => each[0] === unit[2].toUpperCase())?.[1] : 1;
    return size ? [/** @type {Pair} */ ([name, String(Number(number) * size)])] : [];
  });
}

/** @param {{suffix: string}} props */
function Traits({ suffix }) {
  const key = `required${suffix}`;
  const values = get(key);
  const sets = values.filter((value) => /^!?in:/.test(value));
  const names = values.filter((value) => !sets.includes(value)).flatMap((value) => value.split(",")).filter(Boolean);
  const write = (/** @type {string[]} */ next) => set(key, [[...new Set(next)].join(","), ...sets]);
  const enter = (/** @type {HTMLInputElement} */ field) => {
    const more = field.value.split(/[\s,]+/).filter(Boolean);
    if (more.length) write([...names, ...more.map((name) => name.toUpperCase())]);
    field.value = "";
  };
  const change = (/** @type {string} */ name) => write(names.map((each) => (each !== name ? each : name.startsWith("!") ? name.slice(1) : `!${name}`)));
  return html`<div class="traits">${names.map((name) => html`<span class=${name.startsWith("!") ? "chip without" : "chip"}>
      <button type="button" class="plain" title=${name.startsWith("!") ? "Forbidden. Press to require it" : "Required. Press to forbid it"} onClick=${() => change(name)}>${name.startsWith("!") ? `without ${name.slice(1)}` : name}</button>
      <button type="button" class="plain" aria-label=${`Remove ${name}`} onClick=${() => write(names.filter((each) => each !== name))}>×</button></span>`)}
    ${sets.map((value) => html`<code class="tag">${value}</code>`)}
    <input list="all-traits" aria-label=${`Add a trait${suffix && ` to group ${suffix}`}`} placeholder="Add a trait; ! forbids it" onFocus=${readTraits}
      onKeyDown=${(/** @type {KeyboardEvent & {currentTarget: HTMLInputElement}} */ event) => {
        if (event.key !== "Enter" || !event.currentTarget.value.trim()) return;
        event.preventDefault();
        enter(event.currentTarget);
      }} onChange=${(/** @type {{currentTarget: HTMLInputElement}} */ { currentTarget }) => enter(currentTarget)} /></div>`;
}

/** The names of the traits that providers have, once. */
async function readTraits() {
  if (isReading) return;
  isReading = true;
  const headers = { Accept: "application/json", "OpenStack-API-Version": "placement 1.39" };
  const answer = await fetch(`${API}/traits?associated=true`, { headers, credentials: "same-origin" }).catch(() => null);
  if (answer?.ok) traits.value = (await answer.json()).traits.slice(0, 2000);
}

/** Whether a group is in a list of groups. @param {{suffix: string, name: string, label: string, title: string}} props */
function Belongs({ suffix, name, label, title }) {
  const members = terms(name);
  const change = () => set(name, [(members.includes(suffix) ? members.filter((each) => each !== suffix) : [...members, suffix]).join(",")]);
  return html`<label class="check" title=${title}><input type="checkbox" checked=${members.includes(suffix)} onChange=${change} /> ${label}</label>`;
}

/** @param {{name: string, label: string}} props */
function Text({ name, label }) {
  const change = (/** @type {{currentTarget: HTMLInputElement | HTMLSelectElement}} */ { currentTarget }) => set(name, currentTarget.value.split(" ").filter(Boolean));
  if (name === "group_policy") {
    return html`<label>${label} <select value=${get(name)[0] ?? ""} onChange=${change}>${["", "none", "isolate"].map((each) => html`<option>${each}</option>`)}</select></label>`;
  }
  return html`<label>${label} <input value=${get(name).join(" ")} onChange=${change} /></label>`;
}

function Query() {
  const text = spelled();
  const change = (/** @type {{currentTarget: HTMLTextAreaElement}} */ { currentTarget }) => {
    if (currentTarget.value === text) return;
    added.value = [];
    pairs.value = parsed(currentTarget.value);
  };
  return html`<label class="query">Query <textarea rows=${Math.min(6, 1 + Math.floor(text.length / 60))} spellcheck=${false} value=${text} onInput=${change}
    onKeyDown=${(/** @type {KeyboardEvent & {currentTarget: HTMLTextAreaElement}} */ event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      event.currentTarget.form?.requestSubmit();
    }}></textarea></label>`;
}
