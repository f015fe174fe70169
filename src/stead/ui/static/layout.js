/** Where each host is in the map: blocks of groups side by side, each with a heading and rows of cells. */

/** @typedef {import("./site.js").Site} Site */
/** @typedef {{label: string, hosts: number[]}} Group */
/** @typedef {Group & {left: number, top: number, cellsTop: number, columns: number, rows: number, width: number}} Block */
/** @typedef {{width: number, height: number}} Shape */

export const GROUPINGS = /** @type {const} */ (["none", "prefix", "aggregate", "traits"]);
/** @typedef {typeof GROUPINGS[number]} Grouping */

export const HEADING = 20;
const SPACE = 10;

/** A group of fewer pixels has no room for its name. */
const NARROWEST = 44;

/** Hosts of a site that are tiles with their parts drawn inside; the skeleton of the page has the same. */
export const MOST_TILES = 40;

/** Sizes of cells, the largest first: wide ones have names, and square ones numbers, or colours alone. @type {Shape[]} */
export const SHAPES = [
  ...[[400, 224], [340, 190], [300, 168], [260, 150], [220, 132], [190, 110], [168, 92], [150, 78], [132, 64], [116, 52], [104, 44], [92, 38], [80, 34], [68, 30]],
  ...Array.from({ length: 26 }, (_, step) => [28 - step, 28 - step]),
].map(([width, height]) => ({ width, height }));

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
   * @param {Shape} shape of a cell, its gap included
   * @param {number} rows of a block at most
   */
  constructor(groups, width, shape, rows = Infinity) {
    this.cell = shape.width;
    this.tall = shape.height;
    const most = Math.max(1, Math.floor(width / shape.width));
    /** @type {Block[]} */
    this.groups = [];
    let [left, top, bottom] = [0, 0, 0];
    for (const { label, hosts } of groups) {
      const least = label ? Math.ceil(NARROWEST / shape.width) : 1;
      const columns = rows === Infinity ? most : Math.min(most, Math.max(least, Math.ceil(hosts.length / rows)));
      const own = columns * shape.width;
      if (left && left + own > width) [left, top] = [0, bottom];
      const cellsTop = top + (label ? HEADING : 0);
      const block = { label, hosts, left, top, cellsTop, columns, rows: Math.ceil(hosts.length / columns), width: own };
      this.groups.push(block);
      left += own + (label ? SPACE : 0);
      bottom = Math.max(bottom, cellsTop + block.rows * shape.height + (label ? SPACE : 0));
    }
    this.height = bottom;
    /** Group and place of each host, when they are requested first. @type {Map<number, [number, number]> | null} */
    this.places = null;
  }

  /** The blocks that are visible between two heights. @param {number} top @param {number} bottom */
  between(top, bottom) {
    return this.groups.filter((block) => block.top < bottom && block.cellsTop + block.rows * this.tall > top);
  }

  /** The host at a point; -1 if there is none. @param {number} x @param {number} y */
  hostAt(x, y) {
    for (const block of this.groups) {
      const [across, down] = [x - block.left, y - block.cellsTop];
      if (across < 0 || across >= block.width || down < 0 || down >= block.rows * this.tall) continue;
      return block.hosts[Math.floor(down / this.tall) * block.columns + Math.floor(across / this.cell)] ?? -1;
    }
    return -1;
  }

  /** The hosts in a rectangle. @param {{left: number, right: number, top: number, bottom: number}} box */
  hostsIn({ left, right, top, bottom }) {
    const hosts = [];
    for (const block of this.groups) {
      const first = Math.max(0, Math.floor((left - block.left) / this.cell)), last = Math.min(block.columns - 1, Math.floor((right - block.left) / this.cell));
      const from = Math.max(0, Math.floor((top - block.cellsTop) / this.tall)), to = Math.min(block.rows - 1, Math.floor((bottom - block.cellsTop) / this.tall));
      for (let row = from; row <= to; row++) hosts.push(...block.hosts.slice(row * block.columns + first, row * block.columns + last + 1));
    }
    return hosts;
  }

  /** The corner of a host's cell, its group and place in it. @param {number} host */
  placeOf(host) {
    this.places ??= new Map(this.groups.flatMap(({ hosts }, group) => hosts.map((each, place) => /** @type {[number, [number, number]]} */ ([each, [group, place]]))));
    const found = this.places.get(host);
    if (!found) return null;
    const [group, place] = found;
    const { left, cellsTop, columns } = this.groups[group];
    return { group, place, x: left + (place % columns) * this.cell, y: cellsTop + Math.floor(place / columns) * this.tall };
  }

  /**
   * The host that a key leads to from *host*.
   *
   * @param {number} host
   * @param {string} key
   */
  neighbour(host, key) {
    const order = this.groups;
    if (key === "End") return order.at(-1)?.hosts.at(-1) ?? host;
    const at = this.placeOf(host);
    if (!at || key === "Home") return order[0]?.hosts[0] ?? -1;
    const { columns, hosts } = order[at.group];
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
    if (key === "PageDown") return order[Math.min(at.group + 1, order.length - 1)].hosts[0];
    if (key === "PageUp") return order[Math.max(at.group - 1, 0)].hosts[0];
    if (step === undefined) return host;
    const place = at.place + step;
    if (place >= 0 && place < hosts.length) return hosts[place];
    const next = order[at.group + Math.sign(step)];
    if (!next) return host;
    return (step > 0 ? next.hosts[0] : next.hosts.at(-1)) ?? host;
  }
}

/**
 * The layout with the largest cells with which all hosts are visible at once, or with the smallest ones.
 *
 * @param {Group[]} groups
 * @param {number} width
 * @param {number} height
 * @param {Shape | null} shape a fixed one, if there is
 */
export function fitted(groups, width, height, shape = null) {
  const isOne = groups.length === 1 && !groups[0].label;
  if (shape) return isOne ? new Layout(groups, width, shape) : new Layout(groups, width, shape, rowsOf(groups, width, shape));
  for (const each of SHAPES) {
    if (isOne) {
      // One block takes the whole canvas: what is over goes to the cells.
      const columns = Math.floor(width / each.width);
      if (!columns) continue;
      const rows = Math.ceil(groups[0].hosts.length / columns);
      if (rows * each.height > height) continue;
      const isWide = each.width > 28;
      return new Layout(groups, width, isWide ? stretched(each, width, height, Math.min(columns, groups[0].hosts.length), rows) : each);
    }
    for (let shelves = 1; shelves <= 12; shelves++) {
      const rows = Math.floor((height / shelves - HEADING - SPACE) / each.height);
      if (rows < 1) break;
      const layout = new Layout(groups, width, each, rows);
      if (layout.height <= height && layout.groups.every((block) => block.left + block.width <= width)) return layout;
    }
  }
  const least = SHAPES[SHAPES.length - 1];
  return new Layout(groups, width, least, isOne ? Infinity : rowsOf(groups, width, least));
}

/** @param {Shape} shape @param {number} width @param {number} height @param {number} columns @param {number} rows */
function stretched(shape, width, height, columns, rows) {
  return {
    width: Math.min(Math.floor(width / columns), Math.round(shape.width * 1.4)),
    height: Math.max(shape.height, Math.min(Math.floor(height / rows), Math.round(shape.height * 1.25))),
  };
}

/** Rows with which a block of middle size is about a square. @param {Group[]} groups @param {number} width @param {Shape} shape */
function rowsOf(groups, width, shape) {
  const mean = groups.reduce((sum, { hosts }) => sum + hosts.length, 0) / Math.max(1, groups.length);
  const columns = Math.min(Math.floor(width / shape.width), Math.ceil(Math.sqrt((mean * shape.height) / shape.width)));
  return Math.max(1, Math.ceil(mean / Math.max(1, columns)));
}
