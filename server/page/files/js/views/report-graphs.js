// The whole model before and after, side by side in Netron; what differs is marked in both.
import { h, show } from "../dom.js";
import { count, plural } from "../format.js";
import { json } from "../api.js";
import { icon } from "../icons.js";
import { failure, loading } from "../parts.js";

const MANY = 800, AROUND = 400;

/** A button first: the graphs are large, and few need them. */
export function graphs({ model, returned }, job, signal) {
  const place = h("div", { class: "graphs" });
  const isPair = returned === "optimized", isLarge = model.nodes_before > MANY;
  const around = isPair && isLarge && h("button", { type: "button", class: "plain", on: { click: () => load(AROUND) } }, "Show what differs");
  const open = h("button", { type: "button", class: "plain", on: { click: () => load(null) } }, isPair ? "Show both graphs" : "Show the graph");
  show(place, h("p", { class: "actions" }, around, open));
  return [
    h("p", { class: "lead" }, isPair ? "The whole model, without the contents of its weights. Removed, added and changed nodes are marked in the graphs and listed below." : "The whole model, without the contents of its weights.",
      isLarge && ` The viewer takes long to lay out ${plural(model.nodes_before, "node")}.${isPair ? ` Around what differs, ${count(AROUND)} of each model are shown at once.` : ""}`),
    place,
  ];

  async function load(most) {
    show(place, loading("Preparing the graphs", 5));
    try {
      const found = await json(`/page/optimizations/${encodeURIComponent(job.id)}/graphs${most ? `?most=${most}` : ""}`, { signal });
      show(place, isPair && legend(found), h("div", { class: isPair ? "pair viewers" : "viewers" },
        viewer("before", found, isPair ? "Before" : "The model", job.name, signal), isPair && viewer("after", found, "After", job.name, signal)), isPair && lists(found));
      place.querySelector("iframe").focus({ preventScroll: true });
    } catch (error) { if (error.name !== "AbortError") show(place, failure(error, () => load(most))); }
  }
}

function legend({ removed, added, changed }) {
  const entry = (kind, sign, names, text) => h("li", {}, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }, sign), `${count(names.length)} ${text}`);
  return h("ul", { class: "legend" }, entry("removed", "−", removed, "taken away"), entry("added", "+", added, "put in"), entry("changed", "~", changed, "with other inputs or attributes"));
}

function lists({ removed, added, changed }) {
  const list = (title, names) => names.length > 0 && h("details", {}, h("summary", {}, `${title}: ${count(names.length)}`), h("p", {}, h("code", {}, names.slice(0, 500).join(", "), names.length > 500 && " …")));
  return [list("Nodes taken away", removed), list("Nodes put in", added), list("Nodes with other inputs or attributes", changed)];
}

function viewer(side, found, title, name, signal) {
  const bytes = Uint8Array.from(atob(found[side]), (character) => character.charCodeAt(0));
  const file = new File([bytes], name.endsWith(".onnx") ? name : `${name}.onnx`);
  const frame = h("iframe", { src: "/netron/index.html", title: `${title}: graph of ${name}` });
  const marks = side === "before" ? { removed: found.removed, changed: found.changed } : { added: found.added, changed: found.changed };
  frame.addEventListener("load", () => watch(frame.contentDocument, file, marks, signal), { once: true });
  return h("div", { class: `side ${side}` }, h("h3", {}, title, stepper(frame, Object.values(marks).flat().length, title)), frame);
}

/** Buttons that lead from one marked node to the next. */
function stepper(frame, total, title) {
  if (!total) return null;
  let at = -1;
  const where = h("span", { class: "fine soft", role: "status" });
  const step = (by) => {
    const found = [...frame.contentDocument.querySelectorAll(".superopt-removed, .superopt-added, .superopt-changed")];
    if (!found.length) return;
    at = (at + by + found.length) % found.length;
    found[at].scrollIntoView({ block: "center", inline: "center" });
    where.textContent = `${at + 1} of ${found.length}`;
  };
  const button = (by, sign, words) => h("button", { type: "button", class: "icon-button", "aria-label": `${words} difference, ${title}`, title: `${words} difference`, on: { click: () => step(by) } }, icon(sign, 16));
  return h("span", { class: "stepper" }, where, button(-1, "left", "Previous"), button(1, "right", "Next"));
}

/** Gives the viewer its file as soon as it takes one, as if it had been chosen there; marks nodes once they are drawn. */
function watch(inner, file, marks, signal) {
  let isGiven = false, timer = null;
  const look = () => {
    if (!isGiven && inner.body.classList.contains("welcome") && !inner.body.classList.contains("spinner")) {
      isGiven = true;
      give(inner, file);
    }
    for (const [kind, names] of Object.entries(marks)) for (const name of names) inner.getElementById(`node-name-${name}`)?.classList.add(`superopt-${kind}`);
  };
  const observer = new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(look, 100); });
  observer.observe(inner.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["class"] });
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  look();
}

function give(inner, file) {
  const transfer = new DataTransfer(), field = inner.getElementById("open-file-dialog");
  transfer.items.add(file);
  field.files = transfer.files;
  field.dispatchEvent(new Event("change"));
}
