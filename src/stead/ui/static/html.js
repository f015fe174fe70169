/** Templates without a build step: htm writes Preact's elements. Texts in them are never markup. */
import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";

export const html = htm.bind(h);
