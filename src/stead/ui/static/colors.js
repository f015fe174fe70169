/**
 * Colours of fills: cividis, which readers with any form of colour blindness can tell apart.
 *
 * A pixel is one 32-bit number, as ImageData stores it on little-endian machines: alpha, blue, green, red.
 */

/** Samples of cividis from 0 to 1 (Nuñez, Anderton and Renslow, 2018), as red, green, blue. */
const CIVIDIS = [
  [0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116],
  [195, 179, 105], [225, 204, 85], [254, 232, 56],
];

/** Levels of a fill: 0 to 100 percent. */
export const LEVELS = 101;

/** The level of a host without the class. */
export const NO_CLASS = 101;

/** @typedef {{red: number, green: number, blue: number}} Color */

/** @param {number} fraction 0 to 1 @returns {Color} */
export function cividis(fraction) {
  const place = Math.min(Math.max(fraction, 0), 1) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(place), CIVIDIS.length - 2);
  const [from, to, part] = [CIVIDIS[low], CIVIDIS[low + 1], place - low];
  const [red, green, blue] = from.map((value, channel) => Math.round(value + (to[channel] - value) * part));
  return { red, green, blue };
}

/** @param {Color} color */
export function css({ red, green, blue }) {
  return `rgb(${red} ${green} ${blue})`;
}

/** Whether black text is easier to read on *color* than white text. @param {Color} color */
export function isBright({ red, green, blue }) {
  return red * 0.299 + green * 0.587 + blue * 0.114 > 140;
}

/** @param {Color} color @param {Color} background @param {number} share of the color */
function mixed(color, background, share) {
  const mix = (/** @type {"red" | "green" | "blue"} */ channel) =>
    Math.round(color[channel] * share + background[channel] * (1 - share));
  return { red: mix("red"), green: mix("green"), blue: mix("blue") };
}

/** @param {Color} color */
export function pixel({ red, green, blue }) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/**
 * Pixels by level, with one more for hosts without the class: bright ones, and ones that a search has not found.
 *
 * @param {boolean} isDark the page is dark: full is then the bright end, as it is in a bright page the dark one
 */
export function palette(isDark) {
  const background = isDark ? { red: 18, green: 20, blue: 23 } : { red: 255, green: 255, blue: 255 };
  const none = mixed({ red: 128, green: 128, blue: 128 }, background, 0.25);
  const colors = Array.from({ length: LEVELS }, (_, level) => {
    const fraction = level / (LEVELS - 1);
    return cividis(isDark ? fraction : 1 - fraction);
  });
  colors.push(none);
  return {
    background: pixel(background),
    ink: isDark ? "#e8eaed" : "#1b1d20",
    colors,
    found: Uint32Array.from(colors, pixel),
    other: Uint32Array.from(colors, (color) => pixel(mixed(color, background, 0.18))),
    hatch: pixel(isDark ? { red: 230, green: 230, blue: 230 } : { red: 20, green: 20, blue: 20 }),
  };
}
