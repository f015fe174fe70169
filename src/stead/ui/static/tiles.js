/** What is inside the hosts of a small site, drawn into the tiles of the map: NUMA nodes as boxes, devices as squares. */
import { amount } from "./amounts.js";
import { css, isBright, ofFill } from "./colors.js";
import { shortened } from "./grid.js";

/** @typedef {import("./live.js").Live} Live */
/** @typedef {{of: string, used: number, capacity: number}} Held */
/** @typedef {{name: string, held: Held[], inside: Part[]}} Part */
/** @typedef {{x: number, y: number, width: number, height: number}} Box */

const QUERY = "columns=true&fields=name,parent_provider_uuid,inventories,usages";

/** The hosts of a site with their parts, by name. @param {Live} live @returns {Promise<Map<string, Part>>} */
export async function read(live) {
  const { providers } = await live.json(`/provider_trees?${QUERY}`);
  /** @type {Part[]} */
  const parts = providers.name.map((/** @type {string} */ name) => ({ name, held: [], inside: [] }));
  for (const [of, { row: rows, kinds, kind }] of Object.entries(providers.inventories)) {
    for (const [place, row] of (rows ?? [...parts.keys()]).entries()) {
      if (kind[place] < 0) continue;
      parts[row].held.push({ of, used: providers.usages[of].used[place], capacity: kinds[kind[place]].capacity });
    }
  }
  const hosts = new Map();
  for (const [row, parent] of providers.parent_row.entries()) {
    if (parent < 0) hosts.set(parts[row].name, parts[row]);
    else parts[parent].inside.push(parts[row]);
  }
  return hosts;
}

/** How full a part is of a class, or of its fullest one. @param {Part} part @param {string} of */
function fillOf(part, of) {
  const held = part.held.filter((each) => each.capacity > 0);
  const own = held.filter((each) => each.of === of);
  return Math.max(0, ...(own.length ? own : held).map(({ used, capacity }) => used / capacity));
}

/**
 * What draws a host into its tile.
 *
 * @param {Map<string, Part>} hosts @param {import("./grid.js").Grid} grid @param {string} of the class of the map
 */
export function painter(hosts, grid, of) {
  return (/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ number, /** @type {Box} */ box) => {
    const name = grid.site?.names[number] ?? "";
    const { ink, quiet, paper, line, colors } = grid.palette;
    const level = grid.levels[number];
    const inner = { x: box.x + 9, y: box.y + 8, width: box.width - 18, height: box.height - 16 };
    const text = grid.textOf(number);
    context.textBaseline = "middle";
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = quiet;
    context.textAlign = "right";
    context.fillText(text, inner.x + inner.width, inner.y + 6);
    const free = inner.width - context.measureText(text).width - 8;
    context.font = "600 12px system-ui, sans-serif";
    context.fillStyle = ink;
    context.textAlign = "left";
    context.fillText(shortened(context, name, free, true), inner.x, inner.y + 6);
    context.fillStyle = paper;
    round(context, inner.x, inner.y + 17, inner.width, 6);
    if (level <= 100) {
      context.fillStyle = css(colors[Math.max(level, 30)]);
      round(context, inner.x, inner.y + 17, (inner.width * level) / 100, 6);
    }
    context.strokeStyle = line;
    context.lineWidth = 1;
    context.strokeRect(box.x + 0.5, box.y + 0.5, box.width - 1, box.height - 1);
    const rest = { x: inner.x, y: inner.y + 31, width: inner.width, height: inner.height - 31 };
    const host = hosts.get(name);
    if (!host || rest.height < 14) return;
    if (host.inside.length) within(context, grid, host.inside, host.name, of, rest);
    else bars(context, grid, host, rest);
  };
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} width @param {number} height */
function round(context, x, y, width, height) {
  context.beginPath();
  context.roundRect(x, y, width, height, 3);
  context.fill();
}

/**
 * The parts of a host side by side: those with parts or several classes as boxes, devices as squares below them.
 *
 * @param {CanvasRenderingContext2D} context @param {import("./grid.js").Grid} grid @param {Part[]} parts
 * @param {string} above the name of what has them @param {string} of @param {Box} box
 */
function within(context, grid, parts, above, of, box) {
  const boxes = parts.filter((part) => part.inside.length || part.held.length > 1);
  const devices = parts.filter((part) => !boxes.includes(part));
  const below = devices.length ? squares(context, grid, devices, { ...box, y: box.y + box.height - (boxes.length ? 11 : box.height), height: boxes.length ? 11 : box.height }) : 0;
  const height = box.height - (below && boxes.length ? below + 3 : 0);
  const gap = boxes.length > 8 ? 1 : 4;
  const width = (box.width - gap * (boxes.length - 1)) / Math.max(1, boxes.length);
  for (const [place, part] of boxes.entries()) {
    const own = { x: box.x + place * (width + gap), y: box.y, width, height };
    const fill = fillOf(part, of);
    const color = ofFill(fill);
    context.fillStyle = css(color);
    round(context, own.x, own.y, own.width, own.height);
    context.fillStyle = isBright(color) ? "#000" : "#fff";
    context.font = "11px system-ui, sans-serif";
    const label = part.name.startsWith(above) ? part.name.slice(above.length).replace(/^[^\p{L}\p{N}]+/u, "") : part.name;
    const needs = part.inside.length ? 11 : 0;
    if (width > 34 && height > 15 + needs) context.fillText(shortened(context, label, width - 8), own.x + 4, own.y + 9);
    if (width > 84 && height > 15 + needs) {
      context.textAlign = "right";
      context.fillText(`${Math.round(100 * fill)} %`, own.x + width - 4, own.y + 9);
      context.textAlign = "left";
    }
    if (part.inside.length && height > 12) squares(context, grid, part.inside, { x: own.x + 4, y: own.y + (height > 15 + needs ? 18 : 3), width: width - 8, height: height - (height > 15 + needs ? 21 : 6) });
  }
}

/** Devices as squares, in the colour of their fill. Returns their height. @param {CanvasRenderingContext2D} context @param {import("./grid.js").Grid} grid @param {Part[]} devices @param {Box} box */
function squares(context, grid, devices, box) {
  const size = [18, 15, 12, 10, 8, 6, 4].find((each) => Math.floor((box.width + 2) / (each + 2)) * Math.floor((box.height + 2) / (each + 2)) >= devices.length) ?? 3;
  const columns = Math.max(1, Math.floor((box.width + 2) / (size + 2)));
  for (const [place, device] of devices.entries()) {
    const x = box.x + (place % columns) * (size + 2), y = box.y + Math.floor(place / columns) * (size + 2);
    if (y + size > box.y + box.height + 1) break;
    context.fillStyle = grid.palette.paper;
    context.fillRect(x, y, size, size);
    const fill = fillOf(device, "");
    context.fillStyle = css(ofFill(Math.max(0.55, fill)));
    if (fill > 0) context.fillRect(x, y + size * (1 - fill), size, size * fill);
    context.strokeStyle = grid.palette.quiet;
    context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  }
  return size;
}

/** The classes of a host without parts, each with a bar. @param {CanvasRenderingContext2D} context @param {import("./grid.js").Grid} grid @param {Part} host @param {Box} box */
function bars(context, grid, host, box) {
  const { quiet, paper } = grid.palette;
  const held = host.held.slice(0, Math.floor((box.height + 4) / 15));
  context.font = "11px system-ui, sans-serif";
  for (const [place, { of, used, capacity }] of held.entries()) {
    const y = box.y + place * 15;
    context.fillStyle = quiet;
    const text = `${amount(capacity - used, of)} free`;
    const right = Math.min(box.width * 0.45, context.measureText(text).width);
    context.textAlign = "right";
    context.fillText(shortened(context, text, right), box.x + box.width, y + 5);
    context.textAlign = "left";
    context.fillText(shortened(context, of.replace(/_[MG]B$/, ""), box.width * 0.3), box.x, y + 5);
    const [from, width] = [box.x + box.width * 0.32, box.width * 0.64 - right];
    if (width < 12) continue;
    context.fillStyle = paper;
    round(context, from, y + 2, width, 6);
    const fill = capacity > 0 ? Math.min(1, Math.max(0, used / capacity)) : 0;
    context.fillStyle = css(ofFill(Math.max(0.5, fill)));
    if (fill > 0) round(context, from, y + 2, width * fill, 6);
  }
}
