/** Amounts as text. */

/** "3 of 16 (19 %)". @param {number} used @param {number} capacity */
export function amounts(used, capacity) {
  const share = capacity > 0 ? ` (${((100 * used) / capacity).toFixed(used > 0 && capacity > 1000 ? 1 : 0)} %)` : "";
  return `${used.toLocaleString()} of ${capacity.toLocaleString()}${share}`;
}
