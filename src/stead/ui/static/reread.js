/** Reads a part of a page from the server again, and shows it in place of the present one. */

/**
 * @param {string} selector of the part
 * @param {string} [address] of the page, or of one that has the part alone
 */
export async function reread(selector, address = location.href) {
  const answer = await fetch(address, { credentials: "same-origin" }).catch(() => null);
  if (!answer?.ok || answer.redirected) return;
  const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(selector);
  const present = document.querySelector(selector);
  if (!next || !present || isEditing(present) || next.innerHTML === present.innerHTML) return;
  const { scrollX, scrollY } = window;
  const focused = document.activeElement;
  const href = present.contains(focused) ? focused?.getAttribute("href") : null;
  const opened = [...present.querySelectorAll("details")].map((details) => details.open);
  present.replaceChildren(...next.childNodes);
  for (const [place, details] of [...present.querySelectorAll("details")].entries()) details.open = opened[place] ?? details.open;
  for (const link of href ? present.querySelectorAll("a") : []) {
    if (link.getAttribute("href") !== href) continue;
    link.focus({ preventScroll: true });
    break;
  }
  scrollTo(scrollX, scrollY);
}

/** Whether the reader types in a part: the text must not vanish. @param {Element} part */
export function isEditing(part) {
  const element = document.activeElement;
  const isField = element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement;
  return isField && part.contains(element);
}
