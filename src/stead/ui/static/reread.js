/** Reads a part of a page from the server again, and shows it in place of the present one. */

/** The ETags of what was read last, by address. @type {Map<string, string>} */
const tags = new Map();

/**
 * @param {string} selector of the part
 * @param {string} [address] of the page, or of one that has the part alone
 * @returns {Promise<boolean>} whether the page shows what the server has
 */
export async function reread(selector, address = location.href) {
  const headers = { "If-None-Match": tags.get(address) ?? "" };
  const answer = await fetch(address, { credentials: "same-origin", headers }).catch(() => null);
  if (answer?.status === 304) return true;
  if (!answer?.ok || answer.redirected) return false;
  const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(selector);
  const present = document.querySelector(selector);
  if (!next || !present || isEditing(present)) return false;
  tags.set(address, answer.headers.get("etag") ?? "");
  if (shape(next) === shape(present)) return true;
  const { scrollX, scrollY } = window;
  const focused = document.activeElement;
  const href = present.contains(focused) ? focused?.getAttribute("href") : null;
  const opened = [...present.querySelectorAll("details")].map((details) => details.open);
  present.replaceChildren(...next.childNodes);
  for (const [place, details] of [...present.querySelectorAll("details")].entries()) details.open = opened[place] ?? details.open;
  if (href) [...present.querySelectorAll("a")].find((link) => link.getAttribute("href") === href)?.focus({ preventScroll: true });
  scrollTo(scrollX, scrollY);
  return true;
}

/** What a part says, without what moves by itself: relative times and `data-moving`. @param {Element} part */
function shape(part) {
  const copy = /** @type {Element} */ (part.cloneNode(true));
  for (const moving of copy.querySelectorAll("time, [data-moving]")) moving.textContent = "";
  return copy.innerHTML;
}

/** Whether the reader types in a part: the text must not vanish. @param {Element} part */
export function isEditing(part) {
  const element = document.activeElement;
  return element !== null && element.matches("input, textarea, select") && part.contains(element);
}
