// The options of an optimization as a form.
import { h, show } from "../dom.js";
import { duration } from "../format.js";
import { json } from "../api.js";
import { choices } from "../choices.js";

const OBJECTIVES = {
  latency: ["Latency", "the time of one run, measured here"],
  throughput: ["Throughput", "samples a second over all devices"],
  training: ["Training", "the time of one training step"],
  memory: ["Memory", "tensors that are alive at once"],
  flops: ["FLOPs", "arithmetic operations"],
  traffic: ["Traffic", "bytes read and written"],
  launches: ["Launches", "kernels that the runtime starts"],
};
const SEARCHES = {
  auto: "Auto: what suits the size of the model",
  backtracking: "Backtracking: sees what is far apart",
  regions: "Regions: small parts, for large models",
  beam: "Beam: through what is costly on the way",
};
const BUDGETS = [[15, "15 s"], [60, "1 min"], [300, "5 min"], [1200, "20 min"]];

/** The fields, and what they hold. */
export function options(signal) {
  const objectives = h("div", { class: "radios" });
  const budget = h("input", { id: "budget", type: "number", min: "1", step: "any", value: "60", inputmode: "decimal", "aria-describedby": "budget-hint" });
  const hint = h("p", { class: "hint", id: "budget-hint" }, "Everything included: measuring, searching, checking.");
  const target = h("select", { id: "target" }, h("option", { value: "cpu" }, "cpu (this machine)"));
  const search = h("select", { id: "search" }, Object.entries(SEARCHES).map(([name, words]) => h("option", { value: name }, words)));
  const cluster = h("p", { class: "hint" });
  const more = {
    threads: number("threads", "Threads", "All cores", { min: 1, step: 1 }),
    seed: number("seed", "Seed", "0", { min: 0, step: 1 }),
    max_candidates: number("max-candidates", "Candidates at most", "No limit", { min: 1, step: 1 }),
    alpha: number("alpha", "Alpha", "1.05", { min: 1, max: 10, step: "any" }),
    tolerance: number("tolerance", "Tolerance", "By type", { min: 0, step: "any" }),
  };
  const dims = h("input", { id: "dim", placeholder: "batch=8, sequence=128", autocomplete: "off", spellcheck: "false" });
  const keep = h("input", { id: "keep", placeholder: "node, node", autocomplete: "off", spellcheck: "false" });
  offered(["latency", "memory", "flops", "traffic", "launches"]);

  const element = h("div", { class: "options" },
    h("fieldset", {}, h("legend", {}, "Objective"), objectives),
    h("div", { class: "fields" },
      h("div", { class: "field" }, h("label", { for: "budget" }, "Budget in seconds"), budget,
        h("div", { class: "presets", role: "group", "aria-label": "Usual budgets" }, BUDGETS.map(([seconds, words]) => h("button", { type: "button", class: "preset", on: { click: () => { budget.value = seconds; budget.dispatchEvent(new Event("input")); } } }, words))), hint),
      h("div", { class: "field" }, h("label", { for: "target" }, "Target"), target, h("p", { class: "hint" }, "A device, or a profile of measured costs.")),
      h("div", { class: "field" }, h("label", { for: "search" }, "Search"), search, cluster)),
    h("details", { class: "more-options" }, h("summary", {}, "More options"),
      h("div", { class: "fields" }, Object.values(more).map(({ field }) => field),
        h("div", { class: "field" }, h("label", { for: "dim" }, "Sizes of dynamic dimensions"), dims),
        h("div", { class: "field" }, h("label", { for: "keep" }, "Nodes that stay"), keep))));

  choices().then((found) => {
    offered(found.objectives);
    filled(search, found.searches.map((name) => [name, SEARCHES[name] ?? name]));
    budget.max = found.max_job_seconds;
    show(hint, `Everything included: measuring, searching, checking. At most ${duration(found.max_job_seconds)}.`);
  }).catch(() => {});
  json("/v1/devices", { signal }).then(({ items }) => filled(target, items.map((device) =>
    [device.name, device.here ? `${device.name} (this machine)` : device.name]))).catch(() => {});

  function offered(names) {
    const shown = [...objectives.querySelectorAll("input")].map((input) => input.value);
    if (shown.join() === names.join()) return;
    const now = objectives.querySelector("input:checked")?.value ?? "latency", hadFocus = objectives.contains(document.activeElement);
    show(objectives, names.map((name) => h("label", { class: "radio" },
      h("input", { type: "radio", name: "objective", value: name, checked: name === now }),
      h("span", {}, h("b", {}, OBJECTIVES[name]?.[0] ?? name), h("small", {}, OBJECTIVES[name]?.[1] ?? "")))));
    if (hadFocus) objectives.querySelector("input:checked")?.focus();
  }

  /** Other choices; what was chosen stays, and so does the focus. */
  function filled(select, pairs) {
    const now = select.value;
    show(select, pairs.map(([value, words]) => h("option", { value }, words)));
    if (pairs.some(([value]) => value === now)) select.value = now;
  }

  function values() {
    const found = { objective: objectives.querySelector("input:checked").value, budget: Number(budget.value), target: target.value, search: search.value };
    for (const [name, { input }] of Object.entries(more)) if (input.value !== "") found[name] = Number(input.value);
    if (dims.value.trim()) found.dim = Object.fromEntries(dims.value.split(",").map((pair) => pair.split("=")).map(([name, size]) => [name.trim(), Number(size)]));
    if (keep.value.trim()) found.keep = keep.value.split(",").map((name) => name.trim()).filter(Boolean);
    return found;
  }

  function invalid() {
    for (const input of [budget, ...Object.values(more).map((one) => one.input)]) {
      const isWrong = !input.validity.valid || (input === budget && !(Number(budget.value) > 0));
      if (isWrong) return { title: input.labels[0].textContent, detail: input.validationMessage || "A number above 0 is expected.", field: `#${input.id}` };
    }
    if (dims.value.trim() && !dims.value.split(",").every((pair) => /^\s*[^=]+=\s*[1-9]\d*\s*$/.test(pair))) {
      return { title: "Sizes of dynamic dimensions", detail: "Expected name=size, with commas between.", field: "#dim" };
    }
    return null;
  }

  return { element, values, invalid, cluster: (file) => show(cluster, file ? `A plan is made for the cluster of ${file.name}.` : "") };
}

function number(id, label, placeholder, limits) {
  const input = h("input", { id, type: "number", placeholder, inputmode: "decimal", ...limits });
  return { input, field: h("div", { class: "field" }, h("label", { for: id }, label), input) };
}
