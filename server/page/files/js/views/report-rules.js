// Which rules were applied and what each gained, and why the others were not.
import { h, show } from "../dom.js";
import { abbreviated, count, plural, signed, words } from "../format.js";
import { growing, table } from "../parts.js";
import { pictureOnDemand } from "../pictures.js";

const REASONS = {
  excluded: "excluded by you", operator_set: "needs a newer operator set", kept: "touches nodes you keep", not_applicable: "does not apply here",
  breaks_fusion: "would break a fusion", costlier: "more costly", no_gain: "makes no difference", superseded: "superseded by a better rule",
  not_faster: "not faster when timed", not_combined: "does not combine", not_reached: "not reached in the budget", not_priced: "not priced",
};
const KINDS = { not_reached: "warm", not_faster: "warm", breaks_fusion: "bad", superseded: "good" };

/** The rules of the trace with their gains. */
export function rulesApplied(report, unit) {
  const gains = gainsOf(report), tried = report.explanation?.tried ?? [];
  const canonical = counted(report.trace.filter((step) => step.kind !== "rule").map((step) => step.rule || step.kind));
  const parts = [canonical && h("p", { class: "lead" }, `Before the search, the model was put into canonical form: ${canonical}.`)];
  if (gains.length) {
    parts.push(h("p", { class: "lead" }, "Predicted gains are summed over every place where a rule was applied. A rule may increase the cost if it enables another."), gainTable("Gains of the rules applied", gains, unit));
  } else if (tried.length) {
    parts.push(h("p", { class: "lead" }, "No rule was applied to the model that was returned. These were tried together; they were predicted to gain this, but the whole model was not measurably faster."), gainTable("Rules that were tried", tried, unit));
  } else parts.push(h("p", { class: "lead" }, "No rule was applied to the model that was returned."));
  return parts;
}

function gainTable(caption, gains, unit) {
  const most = Math.max(...gains.map((gain) => Math.abs(gain.predicted)), 1e-12);
  const [body, more] = growing(gains, (gain) => h("tr", {},
    h("th", { scope: "row" }, h("a", { class: "equation", href: `/library/${gain.rule}` }, h("code", {}, abbreviated(gain.equation))), pictureOnDemand(gain.equation)),
    h("td", { class: "number", data: { label: "Times" } }, count(gain.times)),
    h("td", { class: "gain-cell", data: { label: "Predicted" } },
      h("span", { class: `number ${gain.predicted > 0 ? "good" : gain.predicted < 0 ? "bad" : ""}` }, signed(gain.predicted, unit)),
      h("span", { class: "track", "aria-hidden": "true" }, h("i", { class: gain.predicted < 0 ? "loss" : "", style: { width: `${(100 * Math.abs(gain.predicted) / most).toFixed(1)}%` } }))),
    h("td", { class: "number", data: { label: "Measured" } }, gain.measured ? [signed(gain.measured.gain, "us"), h("small", {}, ` without it ${gain.measured.ratio_without.toFixed(3)}×`)] : h("span", { class: "soft" }, "–"))),
  { parent: h("tbody"), step: 25, noun: "rules" });
  return [table(caption, [["Rule", ""], ["Times", "number"], ["Predicted gain", "number"], ["Measured gain", "number"]], body, "stack"), more];
}

function gainsOf({ explanation, trace }) {
  if (explanation) return explanation.gains;
  const found = new Map();
  for (const step of trace) {
    if (step.kind !== "rule") continue;
    const gain = found.get(step.equation) ?? { rule: step.rule, equation: step.equation, times: 0, predicted: 0, measured: null };
    gain.times += 1;
    gain.predicted += step.cost_before - step.cost_after;
    found.set(step.equation, gain);
  }
  return [...found.values()].sort((a, b) => b.predicted - a.predicted);
}

/** How often each occurs, in words. */
export function counted(names) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, times]) => (times > 1 ? `${count(times)} × ${name}` : name)).join(", ");
}

/** Every rule that matches and is not in the result, with a filter. */
export function rulesUnused({ explanation }, unit) {
  if (!explanation) return null;
  const all = explanation.unused;
  if (!all.length) return h("p", { class: "lead" }, "No other rule matches the model.");
  const text = h("input", { type: "search", id: "unused-text", autocomplete: "off" }), shown = h("output", { for: "unused-text unused-reason", class: "soft" }), place = h("div");
  const reason = h("select", { id: "unused-reason" }, h("option", { value: "" }, "Any"), [...new Set(all.map((rule) => rule.reason))].map((name) => h("option", { value: name }, REASONS[name] ?? words(name))));
  const filter = () => {
    const wanted = text.value.trim().toLowerCase();
    const fitting = all.filter((rule) => (!reason.value || rule.reason === reason.value) && abbreviated(`${rule.equation} ${rule.detail}`).toLowerCase().includes(wanted));
    shown.textContent = `${count(fitting.length)} of ${plural(all.length, "rule")}`;
    show(place, fitting.length ? unusedTable(fitting, unit) : h("p", { class: "soft" }, "No matching rules."));
  };
  text.addEventListener("input", filter);
  reason.addEventListener("input", filter);
  filter();
  return [
    h("p", { class: "lead" }, `Every proved rule that matches the original somewhere and is not in the result. The best gain is that of the rule alone, at the best of its places.${explanation.complete ? "" : " The list is not complete: explaining may take a twentieth of the budget."}`),
    h("form", { class: "filter", on: { submit: (event) => event.preventDefault() } },
      h("div", { class: "field" }, h("label", { for: "unused-text" }, "Text in the rule or the reason"), text),
      h("div", { class: "field" }, h("label", { for: "unused-reason" }, "Reason"), reason), shown),
    place,
  ];
}

function unusedTable(rules, unit) {
  const [body, more] = growing(rules, (rule) => h("tr", {},
    h("th", { scope: "row" }, h("a", { class: "equation", href: `/library/${rule.rule}` }, h("code", {}, abbreviated(rule.equation)))),
    h("td", { class: "number", data: { label: "Places" } }, count(rule.sites)),
    h("td", { class: `number ${rule.best_gain > 0 ? "good" : ""}`, data: { label: "Best gain" } }, typeof rule.best_gain === "number" ? signed(rule.best_gain, unit) : "–"),
    h("td", { class: "full" }, h("span", { class: `tag ${KINDS[rule.reason] ?? ""}` }, REASONS[rule.reason] ?? words(rule.reason)), h("small", { class: "block" }, abbreviated(rule.detail)))),
  { parent: h("tbody"), step: 20, noun: "rules" });
  return [table("Rules not used, and why", [["Rule", ""], ["Places", "number"], ["Best gain", "number"], ["Why", ""]], body, "stack"), more];
}
