/** Where each host is in the grid: groups below each other, each with a heading and rows of square cells. */

/** @typedef {import("./site.js").Site} Site */
/** @typedef {{label: string, hosts: number[]}} Group */
/** @typedef {{label: string, hosts: number[], top: number, cellsTop: number, rows: number}} Placed */

export const GROUPINGS = /** @type {const} */ (["none", "prefix", "aggregate", "traits"]);
/** @typedef {typeof GROUPINGS[number]} Grouping */

export const HEADING = 22;
const SPACE = 8;

/** @param {Site} site @param {Grouping} grouping @returns {Group[]} */
export function grouped(site, grouping) {
  if (grouping === "none") return [{ label: "", hosts: Array.from({ length: site.size }, (_, host) => host) }];
  const label = LABELS[grouping](site);
  /** @type {Map<string, number[]>} */
  const groups = new Map();
  for (let host = 0; host < site.size; host++) {
    const name = label(host);
    const hosts = groups.get(name);
    if (hosts) hosts.push(host);
    else groups.set(name, [host]);
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, hosts]) => ({ label: name, hosts }));
}

/** @type {Record<Exclude<Grouping, "none">, (site: Site) => (host: number) => string>} */
const LABELS = {
  prefix: (site) => (host) => site.names[host].replace(/\d+\D*$/u, "") || "(no prefix)",
  aggregate: (site) => bySet(site, "aggregates", ([first]) => first ?? "(no aggregate)"),
  traits: (site) => bySet(site, "traits", (names) => names.join(" ").slice(0, 200) || "(no traits)"),
};

/** @param {Site} site @param {"traits" | "aggregates"} what @param {(names: string[]) => string} name */
function bySet(site, what, name) {
  const { names, sets, set } = site.columns.providers[what];
  const labels = sets.map((members) => name(members.map((number) => names[number])));
  return (/** @type {number} */ host) => labels[set[host]];
}

export class Layout {
  /**
   * @param {Group[]} groups
   * @param {number} width in pixels of CSS
   * @param {number} cell width and height of a cell, its gap included
   */
  constructor(groups, width, cell) {
    this.cell = cell;
    this.columns = Math.max(1, Math.floor(width / cell));
    let top = 0;
    /** @type {Placed[]} */
    this.groups = groups.map(({ label, hosts }) => {
      const cellsTop = top + (label ? HEADING : 0);
      const rows = Math.ceil(hosts.length / this.columns);
      const placed = { label, hosts, top, cellsTop, rows };
      top = cellsTop + rows * cell + (label ? SPACE : 0);
      return placed;
    });
    this.height = top;
  }

  /** The group at *y*, and those below it. @param {number} y */
  firstAt(y) {
    let [low, high] = [0, this.groups.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const { cellsTop, rows } = this.groups[middle];
      if (cellsTop + rows * this.cell <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The host at a point; -1 if there is none. @param {number} x @param {number} y */
  hostAt(x, y) {
    const group = this.groups[this.firstAt(y)];
    if (!group || y < group.cellsTop || x < 0 || x >= this.columns * this.cell) return -1;
    const place = Math.floor((y - group.cellsTop) / this.cell) * this.columns + Math.floor(x / this.cell);
    return group.hosts[place] ?? -1;
  }

  /** The corner of a host's cell, its group and place in it. @param {number} host */
  placeOf(host) {
    for (const [number, group] of this.groups.entries()) {
      const place = group.hosts.indexOf(host);
      if (place >= 0) {
        const [row, column] = [Math.floor(place / this.columns), place % this.columns];
        return { group: number, place, x: column * this.cell, y: group.cellsTop + row * this.cell };
      }
    }
    return null;
  }

  /**
   * The host that a key leads to from *host*.
   *
   * @param {number} host
   * @param {string} key
   */
  neighbour(host, key) {
    const at = this.placeOf(host);
    if (!at) return this.groups[0]?.hosts[0] ?? -1;
    const order = this.groups;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns }[key];
    if (key === "Home") return order[0].hosts[0];
    if (key === "End") return order[order.length - 1].hosts.at(-1) ?? host;
    if (key === "PageDown") return order[Math.min(at.group + 1, order.length - 1)].hosts[0];
    if (key === "PageUp") return order[Math.max(at.group - 1, 0)].hosts[0];
    if (step === undefined) return host;
    const place = at.place + step;
    const hosts = order[at.group].hosts;
    if (place >= 0 && place < hosts.length) return hosts[place];
    const next = order[at.group + Math.sign(step)];
    if (!next) return host;
    return (step > 0 ? next.hosts[0] : next.hosts.at(-1)) ?? host;
  }
}

/**
 * The largest cell with which all hosts are visible at once, between *least* and *most* pixels.
 *
 * @param {Group[]} groups
 * @param {number} width
 * @param {number} height
 * @param {number} least
 * @param {number} most
 */
export function fittingCell(groups, width, height, least = 3, most = 28) {
  for (let cell = most; cell > least; cell--) {
    if (new Layout(groups, width, cell).height <= height) return cell;
  }
  return least;
}
