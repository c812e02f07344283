// The whole model before and after, side by side in Netron; what differs is marked in both.
import { h, show } from "../dom.js";
import { count, plural } from "../format.js";
import { json } from "../api.js";
import { failure, loading } from "../parts.js";

const MANY = 2500;

/** A button first: the graphs are large, and few need them. */
export function graphs({ model, returned }, job, signal) {
  const place = h("div", { class: "graphs" });
  const isPair = returned === "optimized";
  const open = h("button", { type: "button", class: "plain", on: { click: load } }, isPair ? "Show both graphs" : "Show the graph");
  show(place, open);
  return [
    h("p", { class: "lead" }, isPair ? "The whole model, without the contents of its weights. Nodes that were taken away, put in or given other inputs are marked in the graphs and listed below." : "The whole model, without the contents of its weights.",
      model.nodes_before > MANY && ` ${plural(model.nodes_before, "node")} take the viewer a while.`),
    place,
  ];

  async function load() {
    show(place, loading("Preparing the graphs", 5));
    try {
      const found = await json(`/page/optimizations/${encodeURIComponent(job.id)}/graphs`, { signal });
      show(place, isPair && legend(found), h("div", { class: isPair ? "pair viewers" : "viewers" },
        viewer("before", found, isPair ? "Before" : "The model", job.name, signal), isPair && viewer("after", found, "After", job.name, signal)), isPair && lists(found));
      place.querySelector("iframe").focus({ preventScroll: true });
    } catch (error) { if (error.name !== "AbortError") show(place, failure(error, load)); }
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
  const address = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  signal.addEventListener("abort", () => URL.revokeObjectURL(address), { once: true });
  const frame = h("iframe", { src: `/netron/index.html?${new URLSearchParams({ url: address, identifier: name.endsWith(".onnx") ? name : `${name}.onnx` })}`, title: `${title}: graph of ${name}` });
  const marks = side === "before" ? { removed: found.removed, changed: found.changed } : { added: found.added, changed: found.changed };
  frame.addEventListener("load", () => mark(frame, marks, signal));
  return h("div", { class: `side ${side}` }, h("h3", {}, title), frame);
}

/** Marks nodes once they are drawn. */
function mark(frame, marks, signal) {
  const inner = frame.contentDocument;
  const apply = () => {
    const isDrawn = inner.querySelector("[id^='node-']") !== null;
    if (!isDrawn) return;
    for (const [kind, names] of Object.entries(marks)) for (const name of names) inner.getElementById(`node-name-${name}`)?.classList.add(`superopt-${kind}`);
  };
  let timer = null;
  const observer = new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(apply, 150); });
  observer.observe(inner.body, { childList: true, subtree: true });
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  apply();
}
