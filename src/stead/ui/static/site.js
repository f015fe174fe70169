/** The hosts of a site as columns, as GET /provider_trees?columns=true has them, and the sums that change. */
import { LEVELS, NO_CLASS } from "./colors.js";

/**
 * Of a class of few trees, `tree` has these trees, and the lists have values for them alone.
 *
 * @typedef {{
 *   tree?: number[], provider_count: number[], total: number[], reserved: number[], capacity: number[], used: number[],
 * }} Sums
 * @typedef {{names: string[], sets: number[][], set: number[]}} Sets
 * @typedef {{reason: string | null, since: string, until: string | null, provider_uuid: string}} State
 * @typedef {{
 *   token: string, tree_count: number, provider_count: number,
 *   trees: {row: number[], provider_count: number[], totals: Record<string, Sums>},
 *   providers: {
 *     row_count: number, name: string[], traits: Sets, aggregates: Sets,
 *     disabled: {states: State[], state: number[]},
 *   },
 * }} Columns
 * @typedef {{
 *   token: string, reload: boolean, provider_count: number, consumer_count: number,
 *   trees: {name: string[], used: Record<string, number[]>},
 * }} Message
 */

/** The query of the columns that a site is made of. */
export const QUERY = "columns=true&totals=true&depth=0&fields=name,traits,aggregates,disabled";

export class Site {
  /** @param {Columns} columns */
  constructor(columns) {
    this.columns = columns;
    this.names = columns.providers.name;
    this.size = this.names.length;
    this.sums = columns.trees.totals;
    /** @type {Map<string, number> | null} */
    this.numbers = null;
    /** By class of few trees, their places. @type {Map<string, Map<number, number>>} */
    this.places = new Map();
  }

  /** Resource classes, those of most hosts first. */
  classes() {
    const having = Object.keys(this.sums).map((name) => ({ name, trees: this.trees(name) }));
    return having.sort((a, b) => b.trees - a.trees).map(({ name }) => name);
  }

  /** Number of trees with a class. @param {string} name */
  trees(name) {
    return this.sums[name]?.provider_count.filter(Boolean).length ?? 0;
  }

  /** The number of the host with a name; undefined if there is none. @param {string} name */
  numberOf(name) {
    this.numbers ??= new Map(this.names.map((each, number) => [each, number]));
    return this.numbers.get(name);
  }

  /** The place of a host in the lists of a class; -1 if it has none of it. @param {string} name @param {number} host */
  place(name, host) {
    const sums = this.sums[name];
    if (!sums) return -1;
    if (!sums.tree) return sums.provider_count[host] ? host : -1;
    const places = this.places.get(name) ?? new Map(sums.tree.map((tree, place) => [tree, place]));
    this.places.set(name, places);
    return places.get(host) ?? -1;
  }

  /** What a host has and uses of a class; null if it has none of it. @param {string} name @param {number} host */
  amounts(name, host) {
    const place = this.place(name, host);
    return place < 0 ? null : { capacity: this.sums[name].capacity[place], used: this.sums[name].used[place] };
  }

  /** How full a host is of a class, in percent; NO_CLASS without it. @param {string} name @param {number} host */
  level(name, host) {
    const held = this.amounts(name, host);
    if (!held) return NO_CLASS;
    const { capacity, used } = held;
    if (capacity <= 0) return LEVELS - 1;
    return Math.min(LEVELS - 1, Math.max(0, Math.round((100 * used) / capacity)));
  }

  /** @param {number} host @returns {State | null} */
  state(host) {
    const { states, state } = this.columns.providers.disabled;
    return state[host] < 0 ? null : states[state[host]];
  }

  /** @param {"traits" | "aggregates"} what @param {number} host */
  members(what, host) {
    const { names, sets, set } = this.columns.providers[what];
    return sets[set[host]].map((number) => names[number]);
  }

  /**
   * Set the sums of a message. Returns the hosts that changed.
   *
   * @param {Message} message
   */
  apply(message) {
    const hosts = [];
    for (const [place, name] of message.trees.name.entries()) {
      const host = this.numberOf(name);
      if (host === undefined) continue;
      hosts.push(host);
      for (const [of, used] of Object.entries(message.trees.used)) {
        const own = used[place] < 0 ? -1 : this.place(of, host);
        if (own >= 0) this.sums[of].used[own] = used[place];
      }
    }
    return hosts;
  }

  /** Capacity and use of a class over all hosts. @param {string} name */
  whole(name) {
    const add = (/** @type {number[]} */ values) => values.reduce((sum, value) => sum + value, 0);
    const { total, reserved, capacity, used } = this.sums[name];
    return { total: add(total), reserved: add(reserved), capacity: add(capacity), used: add(used) };
  }
}
