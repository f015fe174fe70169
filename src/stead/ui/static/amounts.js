/** Amounts as text, as the server writes them. */

/** A number with thin spaces between thousands: a comma or a point would be a decimal mark to some readers. @param {number} value @param {number} [digits] */
export function number(value, digits = 2) {
  return value.toLocaleString("en", { maximumFractionDigits: digits }).replaceAll(",", "\u202f");
}

/** Memory and disk in about three digits with their unit, others in full. @param {number} value @param {string} [of] class */
export function amount(value, of = "") {
  let unit = ["_MB", "_GB"].indexOf(of.slice(-3));
  if (unit < 0 || !value) return number(value);
  for (; Math.abs(value) >= 1024 && unit < 3; unit++) value /= 1024;
  const maximumFractionDigits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return `${number(value, maximumFractionDigits)}\u202f${"MGTP"[unit]}iB`;
}

/** "3 of 16 (19 %)". @param {number} used @param {number} capacity  @param {string} [of] */
export function amounts(used, capacity, of) {
  const share = capacity > 0 ? ` (${((100 * used) / capacity).toFixed(used > 0 && capacity > 1000 ? 1 : 0)} %)` : "";
  return `${amount(used, of)} of ${amount(capacity, of)}${share}`;
}
