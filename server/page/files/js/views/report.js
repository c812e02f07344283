// The report of a finished optimization: the outcome, then a section for each part.
import { h } from "../dom.js";
import { abbreviated, amount, change, count, duration, percent, plural, saved, words, written } from "../format.js";
import { facts, growing, table } from "../parts.js";
import { curve, interval } from "../plot.js";
import { rulesApplied, rulesUnused } from "./report-rules.js";
import { regions } from "./report-regions.js";
import { graphs } from "./report-graphs.js";
import { kernels } from "./report-kernels.js";
import { plan } from "./report-plan.js";

/** Everything, with a list of contents. */
export function report(content, job, signal) {
  const unit = content.cost.unit;
  const parts = [
    ["applied", "What was applied", rulesApplied(content, unit)],
    ["cost", "Cost over time", costOverTime(content, unit)],
    ["regions", "What was rewritten", regions(content, job, unit, signal)],
    ["graphs", "Before and after", graphs(content, job, signal)],
    ["kernels", "Slowest operators", kernels(content, unit)],
    ["plan", "Cluster plan", plan(content.parallel)],
    ["unused", "Rules not used", rulesUnused(content, unit)],
    ["details", "Details", details(content, unit)],
  ].filter(([, , part]) => part);
  return [
    outcome(content, unit),
    h("nav", { class: "contents", "aria-label": "Parts of the report" }, h("ul", {}, parts.map(([id, title]) => h("li", {}, h("a", { href: `#${id}` }, title))))),
    ...parts.map(([id, title, part]) => h("section", { class: "panel part", id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), part)),
  ];
}

function outcome({ cost, measured, model, rules, equivalence, search, returned, why, memory, sizes }, unit) {
  const [headline, line] = headlineOf({ returned, measured, cost, sizes });
  return h("section", { class: "outcome", "aria-labelledby": "outcome-title" },
    h("div", { class: "panel verdict" },
      h("h2", { id: "outcome-title", class: "hidden" }, "Outcome"),
      h("p", { class: `headline ${returned === "optimized" ? "" : "quiet"}` }, h("strong", {}, headline), h("span", {}, line)),
      h("p", { class: "soft why" }, why.charAt(0).toUpperCase() + why.slice(1), "."),
      measured && times(measured)),
    h("dl", { class: "cards" },
      card("Predicted cost", change(cost.before, cost.after, unit), `${percent(saved(cost.before, cost.after))} less, ${cost.source}`),
      card("Nodes", `${count(model.nodes_before)} → ${count(model.nodes_after)}`, model.opaque.length ? `${count(model.opaque.length)} not understood, kept` : "all understood"),
      card("Rules", `${count(rules.applied)} applied`, `${count(rules.matched)} matched, of ${count(rules.loaded)} proved${rules.stale ? `; ${count(rules.stale)} not used, proved for another version` : ""}`),
      card("Outputs", verdictOf(equivalence), equivalence.samples ? `${plural(equivalence.samples, "sample")}, largest relative error ${small(equivalence.max_rel_error)}` : "no comparison needed"),
      search.stopped_by === "not_run" ? card("Search", "none", "the original does not run")
        : card("Search", plural(search.candidates, "candidate"), `${duration(search.seconds)}, ${search.strategy}, ended by ${words(search.stopped_by)}`),
      isFrozen(model) && card("Frozen", sizesText(model.frozen), "for these sizes only"),
      hasSizes(sizes) && card("Sizes", sizesText(sizes.priced), sizes.guessed.length ? `guessed: ${sizes.guessed.join(", ")}` : "as given"),
      memory && card("Memory", change(memory.before, memory.after, "bytes"), "weights and live tensors")));
}

const card = (name, value, note) => h("div", { class: "card" }, h("dt", {}, name), h("dd", {}, value, h("small", {}, note)));
const small = (value) => (typeof value === "number" ? (value === 0 ? "0" : value.toExponential(1)) : "without a number");
const hasSizes = (sizes) => Object.keys(sizes?.priced ?? {}).length > 0;
const isFrozen = (model) => Object.keys(model.frozen ?? {}).length > 0;
const sizesText = (sizes) => Object.entries(sizes).map(([name, size]) => `${name}=${size}`).join(" ");
const verdictOf = ({ samples, passed }) => (samples ? (passed ? "Equal" : "Differ") : passed ? "Unchanged" : "Not certified");

function headlineOf({ returned, measured, cost, sizes }) {
  const where = sizes?.guessed?.length ? ", at guessed sizes" : "";
  if (returned === "original") return ["Unchanged", "the original was returned"];
  if (measured) return [`${measured.ratio.toFixed(2)}×`, (measured.ratio >= 1 ? "as fast as the original" : "the speed of the original") + where];
  return [`${(cost.after ? cost.before / cost.after : 1).toFixed(2)}×`, "less costly, as predicted"];
}

function times(measured) {
  const most = Math.max(measured.before, measured.after);
  const bar = (name, value) => h("div", { class: `time ${name}` }, h("dt", {}, name === "before" ? "Before" : "After"),
    h("dd", {}, h("span", { class: "track", "aria-hidden": "true" }, h("i", { style: { width: `${(100 * value / most).toFixed(2)}%` } })), h("b", {}, amount(value, measured.unit))));
  return h("div", { class: "times" }, h("dl", {}, bar("before", measured.before), bar("after", measured.after)),
    h("div", {}, interval(measured), h("p", { class: "soft fine" }, `${percent(measured.confidence)} interval, ${plural(measured.runs, "run")}, ${measured.runtime}, ${plural(measured.threads, "thread")}`)));
}

function costOverTime({ search, cost }, unit) {
  const points = search.curve ?? [];
  if (!points.length) return null;
  return [
    h("p", { class: "lead" }, `The predicted cost of the best model found so far. The best was found after ${duration(search.best_at_seconds)} of ${duration(search.seconds)} of search.`),
    h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Plot of the cost over time" }, curve(points, search.seconds, unit, { before: cost.before })),
    h("details", {}, h("summary", {}, "As a table"), lazily(() => rows("Cost over time", [["Seconds", "number"], ["Best cost", "number"]], points,
      ([second, value]) => h("tr", {}, h("td", { class: "number" }, second.toFixed(2)), h("td", { class: "number" }, amount(value, unit)))))),
  ];
}

/** A table whose rows come as they are asked for. */
export function rows(caption, heads, items, make) {
  const [body, more] = growing(items, make, { parent: h("tbody"), step: 100, noun: "rows" });
  return [table(caption, heads, body), more];
}

/** What is made only when the details around it are opened. */
export function lazily(make) {
  const place = h("div");
  queueMicrotask(() => place.closest("details")?.addEventListener("toggle", () => { if (!place.hasChildNodes()) place.append(...[make()].flat(Infinity).filter(Boolean)); }));
  return place;
}

function details({ options, equivalence, model, versions = {}, trace, sizes }, unit) {
  return [
    h("div", { class: "columns" },
      h("div", {}, h("h3", {}, "Options"), facts(Object.entries(options).map(([name, value]) => [words(name), written(value)]))),
      h("div", {}, h("h3", {}, "Equivalence"), facts([["verdict", verdictOf(equivalence)], ["samples", count(equivalence.samples)], ["largest absolute error", small(equivalence.max_abs_error)],
        ["largest relative error", small(equivalence.max_rel_error)], ["tolerance", written(equivalence.tolerance)],
        ["error by " + (equivalence.reference?.kind ?? ""), equivalence.error && equivalence.own_error ? `${small(equivalence.error.rms)}, the original's own ${small(equivalence.own_error.rms)}` : null], ["branches that no input led to", equivalence.branches_missed?.join(", ") || null], ["why", equivalence.why || null]])),
      hasSizes(sizes) && h("div", {}, h("h3", {}, "Sizes of open dimensions"), facts([["priced at", sizesText(sizes.priced)], ["checked at", sizes.checked.map(sizesText).join("; ") || null],
        ["timed at", sizes.timed && sizesText(sizes.timed)], ["guessed", sizes.guessed.join(", ") || null], ["give yours with", sizes.request && h("code", {}, sizes.request)]])),
      h("div", {}, h("h3", {}, "Model and versions"), facts([["SHA-256", h("code", {}, model.sha256)], ...Object.entries(versions).map(([name, value]) => [name, value])]))),
    model.opaque.length > 0 && h("details", {}, h("summary", {}, `Opaque nodes, kept unchanged: ${count(model.opaque.length)}`),
      lazily(() => rows("Nodes that were not understood", [["Node", ""], ["Operator", ""], ["Why", ""]], model.opaque,
        (node) => h("tr", {}, h("td", {}, h("code", {}, node.node)), h("td", {}, node.op_type), h("td", {}, node.why))))),
    trace.length > 0 && h("details", {}, h("summary", {}, `The trace: ${plural(trace.length, "step")}`),
      lazily(() => rows("The trace", [["Step", "number"], ["What", ""], ["Nodes", ""], ["Cost after", "number"]], trace,
        (step, place) => h("tr", {}, h("td", { class: "number" }, count(place + 1)), h("td", {}, h("code", {}, abbreviated(step.equation || step.kind))), h("td", {}, h("code", {}, sites(step.site))), h("td", { class: "number" }, amount(step.cost_after, unit)))))),
  ];
}

const sites = (site) => (site.length > 8 ? `${site.slice(0, 8).join(", ")} … (${site.length})` : site.join(", "));
