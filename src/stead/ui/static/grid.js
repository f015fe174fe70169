/**
 * The map of all hosts on one canvas. Each host is a cell; its colour is a level from 0 to 100, such as its fill.
 *
 * Only the visible part is drawn, pixel by pixel: that costs the same for 100 hosts and for 100,000.
 */
import { number } from "./amounts.js";
import { css, isBright, palette } from "./colors.js";
import { fitted, grouped, HEADING, Layout, MOST_TILES, SHAPES } from "./layout.js";

/** @typedef {import("./site.js").Site} Site */
/** @typedef {import("./layout.js").Block} Block */

/** From these heights on, a cell has its number; from these widths, its name; and from these, its parts. */
const WITH_NUMBER = 24;
const WITH_NAME = 64;
const WITH_PARTS = { width: 140, height: 70 };

/** Milliseconds for which the outline of a host that changed fades. */
const FLASH = 1200;
const MOST_FLASHES = 400;

export class Grid {
  /**
   * @param {HTMLElement} view scrolls; has the focus
   * @param {{focused: (host: number, event?: PointerEvent) => void, chosen: (host: number) => void, selected: (hosts: Set<number>) => void}} calls
   *   focused: with the host that the keyboard or pointer leads to, -1 for none; chosen: with the host that is clicked, or Enter is
   *   pressed on; selected: with the hosts that are selected with Shift
   */
  constructor(view, calls) {
    this.view = view;
    this.calls = calls;
    this.chosen = calls.chosen;
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
    /** @type {import("./layout.js").Grouping} */
    this.grouping = "none";
    /** @type {Uint8Array | null} */
    this.found = null;
    /** @type {import("./layout.js").Group[]} */
    this.groups = [];
    this.layout = new Layout([], 1, { width: 3, height: 3 });
    this.levels = new Uint8Array(0);
    /** The level of a host, and its text. @type {(host: number) => number} */
    this.levelOf = () => 0;
    /** @type {(host: number) => string} */
    this.textOf = () => "";
    /** Draws the parts of a host into a tile, if these are known. @type {((context: CanvasRenderingContext2D, host: number, box: {x: number, y: number, width: number, height: number}) => void) | null} */
    this.parts = null;
    /** The pixels of the last drawing, to be used again. @type {ImageData | null} */
    this.image = null;
    this.step = -1;
    this.host = -1;
    /** @type {Set<number>} */
    this.selection = new Set();
    /** Hosts that changed, and when. @type {Map<number, number>} */
    this.flashes = new Map();
    this.isCalm = matchMedia("(prefers-reduced-motion: reduce)");
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
    this.view.addEventListener("pointermove", (event) => this.focus(this.at(event), event));
    this.view.addEventListener("pointerleave", () => this.calls.focused(-1));
    this.view.addEventListener("pointerdown", (event) => this.drag(event));
    this.view.addEventListener("click", (event) => {
      if (event.shiftKey) return;
      const host = this.at(event);
      if (host >= 0) this.chosen(host);
    });
  }

  /**
   * Show a site.
   *
   * @param {Site} site @param {import("./layout.js").Grouping} grouping
   * @param {(host: number) => number} levelOf @param {(host: number) => string} textOf
   */
  show(site, grouping, levelOf, textOf) {
    if (site !== this.site || grouping !== this.grouping) this.groups = grouped(site, grouping);
    if (site !== this.site) {
      this.host = -1;
      this.select(new Set());
      this.flashes.clear();
    }
    [this.site, this.grouping, this.levelOf, this.textOf] = [site, grouping, levelOf, textOf];
    this.levels = Uint8Array.from({ length: site.size }, (_, host) => levelOf(host));
    this.arrange();
  }

  /** Draw the new sums of some hosts. @param {number[]} hosts */
  update(hosts) {
    if (!this.site) return;
    const now = performance.now();
    for (const host of hosts) {
      this.levels[host] = this.levelOf(host);
      if (this.flashes.size < MOST_FLASHES) this.flashes.set(host, now);
    }
    this.redraw();
  }

  /** Fade the hosts that a search has not found. @param {Uint8Array | null} found */
  highlight(found) {
    this.found = found;
    this.redraw();
  }

  /** @param {Set<number>} hosts */
  select(hosts) {
    this.selection = hosts;
    this.calls.selected(hosts);
    this.redraw();
  }

  /** A larger or smaller cell; 0 fits all hosts into the view. @param {number} direction */
  zoom(direction) {
    const current = this.step < 0 ? SHAPES.findIndex(({ width }) => width <= this.layout.cell) : this.step;
    this.step = direction === 0 ? -1 : Math.min(SHAPES.length - 1, Math.max(0, current - direction * (current > 16 ? 3 : 1)));
    const host = this.host;
    this.arrange();
    if (host >= 0) this.reveal(host);
  }

  arrange() {
    const style = getComputedStyle(this.view);
    const most = Math.round(parseFloat(style.getPropertyValue("max-height")) || 400);
    const width = this.view.clientWidth;
    if (!this.site || !width) return;
    this.layout = this.fit(width, most, style);
    const needed = Math.max(40, Math.min(most, this.layout.height));
    // Many hosts nearly fill the height that the page has reserved. It stays, so that nothing below jumps.
    const height = needed > 0.75 * most && this.site.size > MOST_TILES ? most : needed;
    this.view.style.height = `${height}px`;
    const scale = Math.min(2, devicePixelRatio || 1);
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.spacer.style.height = `${Math.max(0, this.layout.height - height)}px`;
    this.redraw();
  }

  /** @param {number} width @param {number} most @param {CSSStyleDeclaration} style */
  fit(width, most, style) {
    if (this.step >= 0) return fitted(this.groups, width, most, SHAPES[this.step]);
    if (this.site && this.site.size <= MOST_TILES && this.grouping === "none") {
      // The skeleton of the page has these tiles already.
      const [least, height] = ["--tile-w", "--tile-h"].map((name) => parseFloat(style.getPropertyValue(name)));
      return new Layout(this.groups, width + 4, { width: (width + 4) / Math.max(1, Math.floor((width + 4) / least)), height });
    }
    return fitted(this.groups, width, most);
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
    if (this.image?.width !== width || this.image.height !== height) this.image = context.createImageData(width, height);
    const image = this.image;
    const pixels = new Uint32Array(image.data.buffer).fill(colors.background);
    const [top, bottom] = [this.view.scrollTop, this.view.scrollTop + this.view.clientHeight];
    const visible = layout.between(top, bottom);
    for (const block of visible) this.fill(pixels, block, top, bottom, scale, width, height);
    context.putImageData(image, 0, 0);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    for (const block of visible) this.write(block, top, bottom);
    this.outline(top, bottom);
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  /** Whether a cell is a tile with the parts of its host. */
  get hasParts() {
    return this.parts !== null && this.layout.cell >= WITH_PARTS.width && this.layout.tall >= WITH_PARTS.height;
  }

  /**
   * @param {Uint32Array} pixels @param {Block} block @param {number} top @param {number} bottom
   * @param {number} scale @param {number} width @param {number} height
   */
  fill(pixels, block, top, bottom, scale, width, height) {
    const { cell, tall } = this.layout;
    const { columns } = block;
    const { found: bright, other, hatch, tile } = this.palette;
    const gap = cell > 28 ? 4 : cell >= 6 ? 1 : 0;
    const state = this.site?.columns.providers.disabled.state ?? [];
    const hasParts = this.hasParts;
    const first = Math.max(0, Math.floor((top - block.cellsTop) / tall));
    const last = Math.min(block.rows, Math.ceil((bottom - block.cellsTop) / tall));
    for (let row = first; row < last; row++) {
      const y = block.cellsTop + row * tall - top;
      const [from, to] = [Math.max(0, Math.round(y * scale)), Math.min(height, Math.round((y + tall - gap) * scale))];
      if (from >= to) continue;
      const hosts = block.hosts.slice(row * columns, (row + 1) * columns);
      const left = (/** @type {number} */ column) => Math.round((block.left + column * cell) * scale);
      const right = (/** @type {number} */ column) => Math.min(width, Math.round((block.left + column * cell + cell - gap) * scale));
      for (const [column, host] of hosts.entries()) {
        const isFound = !this.found || this.found[host];
        const color = hasParts ? tile : (isFound ? bright : other)[this.levels[host]];
        pixels.fill(color, from * width + left(column), from * width + right(column));
      }
      const [start, end] = [left(0), right(hosts.length - 1)];
      for (let line = from + 1; line < to; line++) pixels.copyWithin(line * width + start, from * width + start, from * width + end);
      for (const [column, host] of hosts.entries()) {
        if (state[host] < 0) continue;
        const clear = tall < WITH_NUMBER ? 0 : (to - from) / 4; // lines above and below the texts
        for (let line = from; line < to; line++) {
          if (clear && line >= from + clear && line < to - clear) continue;
          for (let x = left(column); x < right(column); x++) if ((x + line) % 4 === 0) pixels[line * width + x] = hatch;
        }
      }
    }
  }

  /** The heading of a group, and numbers and names in cells that are large enough. @param {Block} block @param {number} top @param {number} bottom */
  write(block, top, bottom) {
    const { context } = this;
    const { cell, tall } = this.layout;
    const { columns } = block;
    context.textBaseline = "middle";
    context.textAlign = "left";
    if (block.label && block.cellsTop > top) {
      context.font = "600 11px system-ui, sans-serif";
      context.fillStyle = this.palette.ink;
      const text = `${block.label} · ${number(block.hosts.length)}`;
      context.fillText(shortened(context, text, block.width, this.grouping === "aggregate"), block.left, block.top - top + HEADING / 2);
    }
    if (tall < WITH_NUMBER) return;
    const hasParts = this.hasParts;
    const first = Math.max(0, Math.floor((top - block.cellsTop) / tall)) * columns;
    const last = Math.min(block.hosts.length, Math.ceil((bottom - block.cellsTop) / tall) * columns);
    for (let place = first; place < last; place++) {
      const host = block.hosts[place];
      const isFound = !this.found || this.found[host];
      const x = block.left + (place % columns) * cell;
      const y = block.cellsTop + Math.floor(place / columns) * tall - top;
      if (hasParts && this.parts) {
        context.globalAlpha = isFound ? 1 : 0.25;
        this.parts(context, host, { x, y, width: cell - 4, height: tall - 4 });
        context.globalAlpha = 1;
        continue;
      }
      const color = this.palette.colors[this.levels[host]];
      context.fillStyle = !isFound ? this.palette.ink : isBright(color) ? "#000" : "#fff";
      const text = this.textOf(host);
      if (cell < WITH_NAME) {
        context.font = "11px system-ui, sans-serif";
        context.textAlign = "center";
        context.fillText(text.replace(/\s*%$/, ""), x + cell / 2, y + tall / 2, cell - 3);
      } else {
        const isTall = tall >= 34;
        context.font = `${isTall ? "600 " : ""}11px system-ui, sans-serif`;
        context.textAlign = "left";
        const name = shortened(context, this.site?.names[host] ?? "", cell - 14, true);
        context.fillText(name, x + 5, y + (isTall ? tall / 2 - 9 : tall / 2 - 2));
        context.font = "11px system-ui, sans-serif";
        if (isTall) context.fillText(text, x + 5, y + tall / 2 + 6, cell - 14);
      }
    }
  }

  /** Outlines of the selection, of what changed, and of the present host. @param {number} top @param {number} bottom */
  outline(top, bottom) {
    const { context, layout } = this;
    const gap = layout.cell > 28 ? 4 : 0;
    const draw = (/** @type {number} */ host, /** @type {number} */ width) => {
      const at = layout.placeOf(host);
      if (!at || at.y > bottom || at.y + layout.tall < top) return;
      context.lineWidth = width;
      context.strokeRect(at.x + width / 2 - 0.5, at.y - top + width / 2 - 0.5, layout.cell - gap - width, layout.tall - gap - width);
    };
    context.strokeStyle = this.palette.accent;
    for (const host of this.selection) draw(host, layout.cell > 10 ? 2 : 1);
    const now = performance.now();
    for (const [host, since] of this.flashes) {
      const left = 1 - (now - since) / FLASH;
      if (left <= 0 || this.isCalm.matches) this.flashes.delete(host);
      else {
        context.globalAlpha = left;
        draw(host, layout.cell > 10 ? 3 : 2);
      }
    }
    context.globalAlpha = 1;
    if (this.flashes.size) this.redraw();
    context.strokeStyle = this.palette.ink;
    if (this.host >= 0) draw(this.host, 2);
    context.lineWidth = 1;
    context.strokeStyle = css(this.palette.colors[0]);
  }

  /** A place in the map, as the layout counts. @param {MouseEvent} event */
  point(event) {
    const box = this.view.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top + this.view.scrollTop };
  }

  /** The host below the pointer. @param {MouseEvent} event */
  at(event) {
    const { x, y } = this.point(event);
    return this.layout.hostAt(x, y);
  }

  /** With Shift, select the hosts in a rectangle, or one host more or less. @param {PointerEvent} event */
  drag(event) {
    if (!event.shiftKey) return;
    event.preventDefault();
    const start = this.point(event);
    const before = new Set(this.selection);
    const lasso = document.createElement("div");
    lasso.className = "lasso";
    let isLasso = false;
    const move = (/** @type {PointerEvent} */ moved) => {
      const end = this.point(moved);
      const box = { left: Math.min(start.x, end.x), right: Math.max(start.x, end.x), top: Math.min(start.y, end.y), bottom: Math.max(start.y, end.y) };
      if (!isLasso && box.right - box.left + box.bottom - box.top < 4) return;
      if (!isLasso) this.view.append(lasso);
      isLasso = true;
      Object.assign(lasso.style, { left: `${box.left}px`, top: `${box.top}px`, width: `${box.right - box.left}px`, height: `${box.bottom - box.top}px` });
      this.select(new Set([...before, ...this.layout.hostsIn(box)]));
    };
    const up = () => {
      removeEventListener("pointermove", move);
      lasso.remove();
      if (!isLasso) this.toggle(this.layout.hostAt(start.x, start.y));
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", up, { once: true });
  }

  /** Select a host, or not any more. @param {number} host */
  toggle(host) {
    if (host < 0) return;
    const next = new Set(this.selection);
    if (!next.delete(host)) next.add(host);
    this.select(next);
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "-" || event.key === "0") {
      this.zoom({ "+": 1, "-": -1, "0": 0 }[event.key]);
    } else if (event.key === "Enter" && this.host >= 0) {
      this.chosen(this.host);
    } else if (event.key === " " && this.host >= 0) {
      this.toggle(this.host);
    } else if (event.key === "Escape" && this.selection.size) {
      this.select(new Set());
    } else if (/^(Arrow|Page|Home|End)/.test(event.key)) {
      const host = this.layout.neighbour(this.host, event.key);
      if (event.shiftKey && host >= 0) this.select(new Set([...this.selection, this.host, host].filter((each) => each >= 0)));
      this.focus(host);
      this.reveal(host);
    } else return;
    event.preventDefault();
  }

  /** @param {number} host @param {PointerEvent} [event] */
  focus(host, event) {
    if (host < 0) {
      if (event) this.calls.focused(-1);
      return;
    }
    const isOther = host !== this.host;
    this.host = host;
    if (isOther || event) this.calls.focused(host, event);
    if (isOther) this.redraw();
  }

  /** Scroll so far that a host is visible. @param {number} host */
  reveal(host) {
    const at = this.layout.placeOf(host);
    if (!at) return;
    const { scrollTop, clientHeight } = this.view;
    if (at.y < scrollTop) this.view.scrollTop = at.y;
    else if (at.y + this.layout.tall > scrollTop + clientHeight) {
      this.view.scrollTop = at.y + this.layout.tall - clientHeight;
    }
  }
}

/**
 * A text that fits into a width. Of a name the end is kept, which differs most.
 *
 * @param {CanvasRenderingContext2D} context @param {string} text @param {number} width @param {boolean} [keepsEnd]
 */
export function shortened(context, text, width, keepsEnd = false) {
  if (context.measureText(text).width <= width) return text;
  const characters = [...text].slice(keepsEnd ? -120 : 0, keepsEnd ? undefined : 120);
  while (characters.length > 1 && context.measureText(`${characters.join("")}…`).width > width) {
    if (keepsEnd) characters.shift();
    else characters.pop();
  }
  return keepsEnd ? `…${characters.join("")}` : `${characters.join("")}…`;
}
