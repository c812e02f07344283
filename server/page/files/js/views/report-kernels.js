// Where the time goes: the costliest kernels before and after, on one scale.
import { h } from "../dom.js";
import { amount, count, percent, plural } from "../format.js";

/** Both tables beside each other; one where nothing changed. */
export function kernels({ explanation, returned, cost }, unit) {
  if (!explanation?.kernels) return null;
  const sides = returned === "original" ? ["before"] : ["before", "after"];
  const slowest = Math.max(...sides.flatMap((side) => explanation.kernels[side].kernels.map((kernel) => kernel.total)), 1e-12);
  return [
    h("p", { class: "lead" }, `A kernel is a group of operators that the runtime executes together. Equal kernels are summed${sides.length > 1 ? "; both sides share one scale" : ""}.`),
    h("div", { class: "pair" }, sides.map((side) => column(side, explanation.kernels[side], cost[side], slowest, unit, sides.length > 1))),
  ];
}

function column(side, { kernels: shown, others, others_total: rest }, total, slowest, unit, isPair) {
  return h("div", { class: `side ${side}` },
    h("h3", {}, isPair ? (side === "before" ? "Before" : "After") : "The model as it was and is", h("span", {}, amount(total, unit))),
    h("ol", { class: "bars" }, shown.map((kernel) => h("li", {},
      h("div", { class: "bar-head" }, h("b", {}, kernel.operators), h("span", {}, `${amount(kernel.total, unit)} · ${percent(kernel.share)}`)),
      h("div", { class: "track", "aria-hidden": "true" }, h("i", { style: { width: `${(100 * kernel.total / slowest).toFixed(2)}%` } })),
      h("p", {}, kernel.count > 1 && `${count(kernel.count)} × ${amount(kernel.cost, unit)}, `, h("code", {}, kernel.type)),
      kernel.nodes.length > 0 && nodes(kernel))),
    others > 0 && h("li", {}, h("div", { class: "bar-head" }, h("span", {}, plural(others, "more kernel")), h("span", {}, amount(rest, unit))))));
}

function nodes(kernel) {
  if (!kernel.nodes[0].name) return h("p", {}, "introduced by a rewrite");
  return h("details", {}, h("summary", {}, plural(kernel.node_count, "ONNX node")),
    h("p", {}, kernel.nodes.map((node) => (node.name ? `${node.name} (${node.op_type})` : `new ${node.op_type}`)).join(", "), kernel.node_count > kernel.nodes.length && " …"));
}
