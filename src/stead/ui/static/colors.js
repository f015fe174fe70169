/**
 * Colours of fills: one hue, `--f0` to `--f10` of stead.css (`#rrggbb`), which all readers can tell apart.
 *
 * A pixel is one 32-bit number, as ImageData stores it on little-endian machines: alpha, blue, green, red.
 */

/** Levels of a fill: 0 to 100 percent. */
export const LEVELS = 101;

/** The level of a host without the class. */
export const NO_CLASS = 101;

/** @typedef {{red: number, green: number, blue: number}} Color */

/** @param {number} fraction 0 to 1 @returns {Color} */
export function ofFill(fraction) {
  const place = Math.min(Math.max(fraction, 0), 1) * 10;
  const low = Math.min(Math.floor(place), 9);
  return mixed(token(`--f${low}`), token(`--f${low + 1}`), place - low);
}

/** @param {string} name @returns {Color} */
function token(name) {
  const color = parseInt(getComputedStyle(document.documentElement).getPropertyValue(name).trim().slice(1), 16);
  return { red: color >> 16, green: (color >> 8) & 255, blue: color & 255 };
}

/** @param {Color} color */
export function css({ red, green, blue }) {
  return `rgb(${red} ${green} ${blue})`;
}

/** Whether black text is easier to read on *color* than white text. @param {Color} color */
export function isBright({ red, green, blue }) {
  return red * 0.299 + green * 0.587 + blue * 0.114 > 140;
}

/** @param {Color} from @param {Color} to @param {number} share of *to* */
function mixed(from, to, share) {
  const mix = (/** @type {keyof Color} */ channel) => Math.round(from[channel] + (to[channel] - from[channel]) * share);
  return { red: mix("red"), green: mix("green"), blue: mix("blue") };
}

/** @param {Color} color */
export function pixel({ red, green, blue }) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Pixels by level, with one more for hosts without the class: bright ones, and ones that a search has not found. */
export function palette() {
  const [background, ink] = [token("--paper"), token("--ink")];
  const none = mixed(background, { red: 128, green: 128, blue: 128 }, 0.25);
  const colors = [...Array.from({ length: LEVELS }, (_, level) => ofFill(level / (LEVELS - 1))), none];
  return {
    background: pixel(background),
    tile: pixel(token("--tint")),
    ink: css(ink),
    quiet: css(token("--quiet")),
    paper: css(background),
    line: css(token("--line")),
    accent: css(token("--accent")),
    colors,
    found: Uint32Array.from(colors, pixel),
    other: Uint32Array.from(colors, (color) => pixel(mixed(background, color, 0.18))),
    hatch: pixel(ink),
  };
}
