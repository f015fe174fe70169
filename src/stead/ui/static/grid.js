/**
 * The grid of all hosts on one canvas. Each host is a square; its colour is its fill of one resource class.
 *
 * Only the visible part is drawn, pixel by pixel: that costs the same for 100 hosts and for 100,000.
 */
import { css, isBright, palette } from "./colors.js";
import { fittingCell, grouped, HEADING, Layout } from "./layout.js";

/** @typedef {import("./site.js").Site} Site */

const STEPS = [3, 4, 6, 9, 14, 20, 28, 48, 80, 120];

/** From this size on, a cell has its number, and from the second its name. */
const WITH_NUMBER = 28;
const WITH_NAME = 80;

export class Grid {
  /**
   * @param {HTMLElement} view scrolls; has the focus
   * @param {(host: number) => void} focused called with the host that the keyboard or pointer leads to
   * @param {(host: number) => void} chosen called with the host that is clicked, or Enter is pressed on
   */
  constructor(view, focused, chosen) {
    this.view = view;
    this.focused = focused;
    this.chosen = chosen;
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.spacer = document.createElement("div");
    view.append(this.canvas, this.spacer);
    const context = this.canvas.getContext("2d", { alpha: false, desynchronized: true });
    if (!context) throw new Error("no 2D canvas");
    this.context = context;
    this.palette = palette();
    /** @type {Site | null} */
    this.site = null;
    this.className = "";
    /** @type {import("./layout.js").Grouping} */
    this.grouping = "none";
    /** @type {Uint8Array | null} */
    this.found = null;
    /** @type {import("./layout.js").Group[]} */
    this.groups = [];
    this.layout = new Layout([], 1, 3);
    this.levels = new Uint8Array(0);
    this.cell = 0;
    this.host = -1;
    this.isDue = false;
    /** Durations of the last redraws, in milliseconds. @type {number[]} */
    this.times = [];
    this.listen();
  }

  listen() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.palette = palette();
      this.redraw();
    });
    this.view.addEventListener("scroll", () => this.redraw(), { passive: true });
    new ResizeObserver(() => this.arrange()).observe(this.view);
    this.view.addEventListener("keydown", (event) => this.press(event));
    this.view.addEventListener("pointermove", (event) => this.focus(this.at(event)));
    this.view.addEventListener("click", (event) => {
      const host = this.at(event);
      if (host >= 0) this.chosen(host);
    });
  }

  /** Show a site, a class and a grouping. @param {Site} site @param {string} className @param {import("./layout.js").Grouping} grouping */
  show(site, className, grouping) {
    if (site !== this.site || grouping !== this.grouping) this.groups = grouped(site, grouping);
    if (site !== this.site) this.host = -1;
    [this.site, this.className, this.grouping] = [site, className, grouping];
    this.levels = Uint8Array.from({ length: site.size }, (_, host) => site.level(className, host));
    this.arrange();
  }

  /** Draw the new sums of some hosts. @param {number[]} hosts */
  update(hosts) {
    if (!this.site) return;
    for (const host of hosts) this.levels[host] = this.site.level(this.className, host);
    this.redraw();
  }

  /** Fade the hosts that a search has not found. @param {Uint8Array | null} found */
  highlight(found) {
    this.found = found;
    this.redraw();
  }

  /** A larger or smaller cell; 0 fits all hosts into the view. @param {number} direction */
  zoom(direction) {
    const current = this.layout.cell;
    const next = direction > 0 ? STEPS.find((step) => step > current) : STEPS.findLast((step) => step < current);
    this.cell = direction === 0 ? 0 : (next ?? current);
    const host = this.host;
    this.arrange();
    if (host >= 0) this.reveal(host);
  }

  arrange() {
    const { clientWidth: width, clientHeight: height } = this.view;
    if (!this.site || !width || !height) return;
    const cell = this.cell || fittingCell(this.groups, width, height);
    this.layout = new Layout(this.groups, width, cell);
    const scale = Math.min(2, devicePixelRatio || 1);
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.spacer.style.height = `${Math.max(0, this.layout.height - height)}px`;
    this.redraw();
  }

  redraw() {
    if (this.isDue || document.hidden) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      const began = performance.now();
      this.draw();
      this.times.push(performance.now() - began);
      if (this.times.length > 200) this.times.shift();
    });
  }

  draw() {
    const { canvas, context, layout, palette: colors } = this;
    const { width, height } = canvas;
    if (!width || !height) return;
    const scale = width / this.view.clientWidth;
    const image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer).fill(colors.background);
    const [top, bottom] = [this.view.scrollTop, this.view.scrollTop + this.view.clientHeight];
    const visible = layout.groups.slice(layout.firstAt(top));
    for (const group of visible) {
      if (group.top >= bottom) break;
      this.fill(pixels, group, top, bottom, scale, width, height);
    }
    context.putImageData(image, 0, 0);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    for (const group of visible) {
      if (group.top >= bottom) break;
      this.write(group, top, bottom);
    }
    this.outline(top);
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  /**
   * @param {Uint32Array} pixels @param {import("./layout.js").Placed} group @param {number} top @param {number} bottom
   * @param {number} scale @param {number} width @param {number} height
   */
  fill(pixels, group, top, bottom, scale, width, height) {
    const { cell, columns } = this.layout;
    const { found: bright, other, hatch } = this.palette;
    const gap = cell >= 6 ? 1 : 0;
    const state = this.site?.columns.providers.disabled.state ?? [];
    const first = Math.max(0, Math.floor((top - group.cellsTop) / cell));
    const last = Math.min(group.rows, Math.ceil((bottom - group.cellsTop) / cell));
    for (let row = first; row < last; row++) {
      const y = group.cellsTop + row * cell - top;
      const [from, to] = [Math.max(0, Math.round(y * scale)), Math.min(height, Math.round((y + cell - gap) * scale))];
      const hosts = group.hosts.slice(row * columns, (row + 1) * columns);
      for (const [column, host] of hosts.entries()) {
        const left = Math.round(column * cell * scale);
        const right = Math.min(width, Math.round((column * cell + cell - gap) * scale));
        const isFound = !this.found || this.found[host];
        const color = (isFound ? bright : other)[this.levels[host]];
        if (from < to) pixels.fill(color, from * width + left, from * width + right);
      }
      for (let line = from + 1; line < to; line++) pixels.copyWithin(line * width, from * width, (from + 1) * width);
      for (const [column, host] of hosts.entries()) {
        if (state[host] < 0) continue;
        const left = Math.round(column * cell * scale);
        const right = Math.min(width, Math.round((column * cell + cell - gap) * scale));
        const clear = cell < WITH_NUMBER ? 0 : (to - from) / 4; // lines above and below the texts
        for (let line = from; line < to; line++) {
          if (clear && line >= from + clear && line < to - clear) continue;
          for (let x = left; x < right; x++) if ((x + line) % 4 === 0) pixels[line * width + x] = hatch;
        }
      }
    }
  }

  /** The heading of a group, and numbers and names in cells that are large enough. @param {import("./layout.js").Placed} group @param {number} top @param {number} bottom */
  write(group, top, bottom) {
    const { context } = this;
    const { cell, columns } = this.layout;
    context.textBaseline = "middle";
    if (group.label && group.cellsTop > top) {
      context.font = "600 12px system-ui, sans-serif";
      context.fillStyle = this.palette.ink;
      context.textAlign = "left";
      context.fillText(`${group.label} (${group.hosts.length.toLocaleString()})`, 2, group.top - top + HEADING / 2);
    }
    if (cell < WITH_NUMBER) return;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    const first = Math.max(0, Math.floor((top - group.cellsTop) / cell)) * columns;
    const last = Math.min(group.hosts.length, Math.ceil((bottom - group.cellsTop) / cell) * columns);
    for (let place = first; place < last; place++) {
      const host = group.hosts[place];
      const level = this.levels[host];
      const color = this.palette.colors[level];
      const isFound = !this.found || this.found[host];
      context.fillStyle = !isFound ? this.palette.ink : isBright(color) ? "#000" : "#fff";
      const x = ((place % columns) + 0.5) * cell;
      const y = group.cellsTop + (Math.floor(place / columns) + 0.5) * cell - top;
      const text = level > 100 ? "–" : String(level);
      if (cell < WITH_NAME) context.fillText(text, x, y, cell - 2);
      else {
        context.fillText(short(this.site?.names[host] ?? "", cell), x, y - 8, cell - 4);
        context.fillText(level > 100 ? "–" : `${level} %`, x, y + 8, cell - 4);
      }
    }
  }

  /** @param {number} top */
  outline(top) {
    const at = this.host < 0 ? null : this.layout.placeOf(this.host);
    if (!at) return;
    const size = this.layout.cell;
    this.context.lineWidth = 2;
    this.context.strokeStyle = this.palette.ink;
    this.context.strokeRect(at.x - 1, at.y - top - 1, size + 1, size + 1);
    this.context.lineWidth = 1;
    this.context.strokeStyle = css(this.palette.colors[0]);
  }

  /** The host below the pointer. @param {MouseEvent} event */
  at(event) {
    const box = this.view.getBoundingClientRect();
    return this.layout.hostAt(event.clientX - box.left, event.clientY - box.top + this.view.scrollTop);
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "-" || event.key === "0") {
      this.zoom({ "+": 1, "-": -1, "0": 0 }[event.key]);
    } else if (event.key === "Enter" && this.host >= 0) {
      this.chosen(this.host);
    } else if (/^(Arrow|Page|Home|End)/.test(event.key)) {
      const host = this.layout.neighbour(this.host, event.key);
      this.focus(host);
      this.reveal(host);
    } else return;
    event.preventDefault();
  }

  /** @param {number} host */
  focus(host) {
    if (host < 0 || host === this.host) return;
    this.host = host;
    this.focused(host);
    this.redraw();
  }

  /** Scroll so far that a host is visible. @param {number} host */
  reveal(host) {
    const at = this.layout.placeOf(host);
    if (!at) return;
    const { scrollTop, clientHeight } = this.view;
    if (at.y < scrollTop) this.view.scrollTop = at.y;
    else if (at.y + this.layout.cell > scrollTop + clientHeight) {
      this.view.scrollTop = at.y + this.layout.cell - clientHeight;
    }
  }
}

/** A name that fits into a cell: its end, which differs most, is kept. @param {string} name @param {number} cell */
function short(name, cell) {
  const most = Math.floor(cell / 6);
  const characters = [...name];
  return characters.length <= most ? name : `…${characters.slice(1 - most).join("")}`;
}
