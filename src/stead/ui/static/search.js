/**
 * A search of hosts. Words are separated by spaces, and a host must pass all of them: `rack7` (in the name),
 * `trait:HW_CPU_X86_AVX2`, `aggregate:4d5e`, `disabled`, `VCPU>=4` (that much is free).
 */

/** @typedef {import("./site.js").Site} Site */
/** @typedef {(host: number) => boolean} Test */

/**
 * Which hosts pass; null if the search is empty.
 *
 * @param {Site} site
 * @param {string} text
 * @returns {Uint8Array | null}
 */
export function search(site, text) {
  const tests = text.split(/\s+/).filter(Boolean).map((word) => testOf(site, word));
  if (!tests.length) return null;
  const found = new Uint8Array(site.size);
  for (let host = 0; host < site.size; host++) found[host] = tests.every((test) => test(host)) ? 1 : 0;
  return found;
}

/** @param {Site} site @param {string} word @returns {Test} */
function testOf(site, word) {
  const amount = /^([A-Z][A-Z0-9_]*)>=(\d+)$/.exec(word);
  if (amount) return freeTest(site, amount[1], Number(amount[2]));
  if (word === "disabled") return (host) => site.state(host) !== null;
  for (const what of /** @type {const} */ (["traits", "aggregates"])) {
    const prefix = `${what.slice(0, -1)}:`;
    if (word.startsWith(prefix)) return memberTest(site, what, word.slice(prefix.length).toLowerCase());
  }
  const part = word.toLowerCase();
  return (host) => site.names[host].toLowerCase().includes(part);
}

/** @param {Site} site @param {string} name @param {number} amount @returns {Test} */
function freeTest(site, name, amount) {
  return (host) => {
    const held = site.amounts(name, host);
    return held !== null && held.capacity - held.used >= amount;
  };
}

/** @param {Site} site @param {"traits" | "aggregates"} what @param {string} part @returns {Test} */
function memberTest(site, what, part) {
  const { names, sets, set } = site.columns.providers[what];
  const matching = new Set(names.flatMap((name, number) => (name.toLowerCase().includes(part) ? [number] : [])));
  const passing = sets.map((members) => members.some((member) => matching.has(member)));
  return (host) => passing[set[host]];
}

/** Suggestions at once. */
const MOST = 12;

/**
 * Texts that begin with all but the last word of a search, and end in what this word may become.
 *
 * @param {Site} site @param {string} text
 */
export function suggested(site, text) {
  const [, before = "", word = ""] = /^(.*?)(\S*)$/s.exec(text) ?? [];
  const part = word.toLowerCase();
  if (!part) return [];
  const { traits, aggregates } = site.columns.providers;
  /** @type {string[]} */
  const texts = [];
  const add = (/** @type {Iterable<string>} */ words, /** @type {(word: string) => boolean} */ passes) => {
    for (const each of words) {
      if (texts.length >= MOST) return;
      if (passes(each)) texts.push(before + each);
    }
  };
  const starts = (/** @type {string} */ each) => each.toLowerCase().startsWith(part) && each !== word;
  add(["disabled", "trait:", "aggregate:", ...Object.keys(site.sums).map((of) => `${of}>=`)], starts);
  for (const [prefix, names] of /** @type {const} */ ([["trait:", traits.names], ["aggregate:", aggregates.names]])) {
    const rest = part.startsWith(prefix) ? part.slice(prefix.length) : null;
    if (rest !== null) add(names.map((name) => prefix + name), (each) => each.slice(prefix.length).toLowerCase().includes(rest));
    else if (part.length > 2) add(names.map((name) => prefix + name), (each) => each.slice(prefix.length).toLowerCase().includes(part));
  }
  add(site.names.filter((name) => !/\s/.test(name)), (name) => name !== word && name.toLowerCase().includes(part));
  return texts;
}
