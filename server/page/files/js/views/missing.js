// An address that shows nothing.
import { h, show } from "../dom.js";
import { empty } from "../parts.js";

/** Says so, and where to go. */
export function view({ root, title }) {
  title("Not found");
  show(root, h("h1", { class: "hidden" }, "Not found"), empty("question", "There is nothing here", "The URL may refer to something that was removed.", h("a", { href: "/", class: "button plain" }, "Optimise a model")));
}
