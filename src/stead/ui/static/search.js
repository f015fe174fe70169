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
