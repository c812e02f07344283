// The API key: asked for when the service wants one, kept for as long as this tab.
import { h, show } from "./dom.js";
import { icon } from "./icons.js";

const NAME = "superopt-key";

/** The key of this tab, if any. */
export const key = () => sessionStorage.getItem(NAME);

/** The header that carries it. */
export const authorization = () => (key() ? { Authorization: `Bearer ${key()}` } : {});

let asking = null;

/** Asks for a key; true when one was given. `why` says what was wrong. Asked once at a time. */
export function askForKey(why) {
  asking ??= ask(why).finally(() => { asking = null; });
  return asking;
}

function ask(why) {
  return new Promise((resolve) => {
    const field = h("input", { id: "api-key", type: "password", autocomplete: "off", required: true, spellcheck: "false", "aria-describedby": "key-why" });
    const forget = key() && h("button", { type: "button", class: "plain", on: { click: () => { sessionStorage.removeItem(NAME); dialog.close(); mark(); } } }, "Forget the key");
    const form = h("form", { method: "dialog", on: { submit: (event) => {
      event.preventDefault();
      sessionStorage.setItem(NAME, field.value.trim());
      mark();
      dialog.close("given");
    } } },
    h("h2", { id: "key-title" }, "API key"),
    h("p", { id: "key-why", class: "soft" }, why),
    h("div", { class: "field" }, h("label", { for: "api-key" }, "Key"), field,
      h("p", { class: "hint" }, "Kept in this tab only, until it is closed. Keys are made with ", h("code", {}, "superopt keys create NAME"), ".")),
    h("div", { class: "actions" }, h("button", {}, "Use this key"), forget,
      h("button", { type: "button", class: "plain", on: { click: () => dialog.close() } }, "Cancel")));
    const dialog = h("dialog", { class: "dialog", "aria-labelledby": "key-title" }, form);
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "given"); });
    document.body.append(dialog);
    dialog.showModal();
    field.focus();
  });
}

/** Shows in the bar whether there is a key. */
export function mark() {
  const button = document.getElementById("key-button");
  button.hidden = !key();
  show(button, icon("key"), h("span", { class: "hidden" }, "API key"));
  button.title = "API key";
  button.onclick = () => askForKey("This tab has a key. Give another one, or forget it.").then((given) => { if (given) dispatchEvent(new CustomEvent("superopt-back")); });
}
