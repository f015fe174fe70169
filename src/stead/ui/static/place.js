/** The addresses that the server wrote into the page. */

const { api = "", root = "" } = document.body.dataset;

/** The prefix of the API's paths. */
export const API = api;

/** The page of a provider. @param {string} uuid */
export function providerPage(uuid) {
  return `${root}/ui/providers/${uuid}`;
}

/** The Site page with only the hosts whose name has a text. @param {string} name */
export function searchPage(name) {
  return `${root}/ui/?search=${encodeURIComponent(name)}`;
}

/** Load a style sheet beside these scripts. @param {string} path */
export function addStyle(path) {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = new URL(path, import.meta.url).href;
  document.head.append(link);
}
