// Parts that several views show: states, empty and failed views, lists that grow.
import { h, show } from "./dom.js";
import { icon } from "./icons.js";
import { abbreviated, count } from "./format.js";

const STATES = {
  queued: ["clock", "", "Waiting"],
  running: ["spin", "live", "Running"],
  cancelling: ["stop", "warm", "Cancelling"],
  succeeded: ["check", "good", "Succeeded"],
  failed: ["alert", "bad", "Failed"],
  cancelled: ["stop", "", "Cancelled"],
  crashed: ["alert", "bad", "Crashed"],
  verified: ["check", "good", "Proved"],
  refuted: ["close", "bad", "Refuted"],
  unproved: ["question", "warm", "Unproved"],
  candidate: ["clock", "", "Candidate"],
  stale: ["clock", "warm", "Stale"],
  suspect: ["alert", "bad", "Suspect"],
};

/** States of an optimization that never change again. */
export const FINAL = new Set(["succeeded", "failed", "cancelled", "crashed"]);

/** The word for a state. */
export const stateWord = (state) => STATES[state]?.[2] ?? state;

/** A state as sign and word. */
export function chip(state) {
  const [sign, kind, word] = STATES[state] ?? ["question", "", state];
  return h("span", { class: `chip ${kind}`, data: { state } }, icon(sign, 14), word);
}

/** A heading with what belongs beside it. */
export function heading(title, { lead, crumbs, aside } = {}) {
  return h("header", { class: "heading" },
    h("div", {}, crumbs && h("p", { class: "crumbs" }, crumbs), h("h1", {}, title), lead && h("p", {}, lead)),
    aside);
}

/** An equation, abbreviated; where that is shorter, the whole can be unfolded. */
export function equationText(text, kind = "code-block") {
  const short = abbreviated(text), block = (name, shown) => h("pre", { class: name, tabindex: "0" }, shown);
  return [block(kind, short), short !== text && h("details", {}, h("summary", {}, "In full"), block("code-block", text))];
}

/** Grey bars while something is on its way. */
export function loading(text, rows = 4) {
  return h("div", { class: "loading", role: "status" }, h("span", { class: "hidden" }, text),
    Array.from({ length: rows }, () => h("div", { class: "bone" })));
}

/** What is said where there is nothing. */
export function empty(sign, title, text, action) {
  return h("div", { class: "empty" }, icon(sign, 28), h("p", { class: "empty-title" }, title), h("p", { class: "soft" }, text), action);
}

/** A failure in place of what should be there; `again` tries once more. */
export function failure(error, again) {
  const isSelfMade = !error.title;
  return h("div", { class: "empty failed", role: "alert", data: { failed: "" } }, icon("alert", 28),
    h("p", { class: "empty-title" }, isSelfMade ? "Something went wrong on this page" : error.title),
    h("p", { class: "soft" }, isSelfMade ? error.message : error.detail),
    again && h("button", { type: "button", class: "plain", on: { click: again } }, "Try again"));
}

/** A failure beside what is there. */
export function notice(error) {
  return h("div", { class: "notice bad", role: "alert" }, icon("alert"),
    h("div", {}, h("strong", {}, error.title ?? "Something went wrong"), error.detail || !error.title ? h("p", {}, error.detail || error.message) : null,
      error.errors?.length > 1 && h("ul", {}, error.errors.map((one) => h("li", {}, `${one.field}: ${one.detail}`)))));
}

/** A list that shows `step` items and more when asked, so that thousands cost nothing. `make(item, place)` makes an element. */
export function growing(items, make, { step = 50, parent = h("ul"), noun = "more" } = {}) {
  let shown = 0;
  const button = h("button", { type: "button", class: "plain small", on: { click: () => grow(true) } });
  function grow(isAsked = false) {
    const from = shown;
    shown = Math.min(items.length, shown + step);
    parent.append(...items.slice(from, shown).map((item, place) => make(item, from + place)));
    button.hidden = shown === items.length;
    button.textContent = `Show ${count(Math.min(step, items.length - shown))} ${noun} of ${count(items.length - shown)} left`;
    if (isAsked) {
      const first = parent.children[from];
      first.tabIndex = -1;
      first.focus({ preventScroll: true });
    }
  }
  grow();
  return [parent, h("p", { class: "more" }, button)];
}

/** A table in a frame that scrolls; `heads` are [text, class]. */
export function table(caption, heads, body, kind = "") {
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { class: kind }, h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, heads.map(([text, name]) => h("th", { scope: "col", class: name }, text)))), body));
}

/** Text with `code` in it. */
export function prose(text) {
  return text.split(/`+([^`]+)`+/).map((part, place) => (place % 2 ? h("code", {}, part) : part));
}

/** Names and values. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** Shows grey bars, then what `load` gives, or why it does not. */
export async function into(place, text, load, signal) {
  show(place, loading(text));
  try {
    const shown = await load();
    if (!signal?.aborted) show(place, shown);
  } catch (error) {
    if (signal?.aborted || error.name === "AbortError") return;
    show(place, failure(error, () => into(place, text, load, signal)));
  }
}
