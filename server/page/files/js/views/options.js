// The options of an optimization as a form, drawn from those that the service offers.
import { h, show } from "../dom.js";
import { words } from "../format.js";
import { json } from "../api.js";
import { choices } from "../choices.js";
import { prose } from "../parts.js";

const FIRST = ["objective", "budget"];
const BUDGETS = [[15, "15 s"], [60, "1 min"], [300, "5 min"], [1200, "20 min"]];
const PLACEHOLDERS = { sizes: "batch=8, sequence=128", names: "name, name" };
const title = (name) => words(name).replace(/^./, (letter) => letter.toUpperCase());
const entries = (input) => input.value.split(",").map((one) => one.trim()).filter(Boolean);

/** The fields, and what they hold. */
export async function options(signal) {
  const fields = Object.fromEntries((await choices()).options.map((option) => [option.name, (option.members.length ? settings : field)(option)]));
  const more = Object.keys(fields).filter((name) => !FIRST.includes(name)), all = Object.values(fields);
  const { budget, target, objective, training } = fields;
  const trains = () => { training.element.hidden = objective.value() !== "training"; };
  objective.input.addEventListener("change", trains);
  trains();
  budget.element.append(h("div", { class: "presets", role: "group", "aria-label": "Usual budgets" }, BUDGETS.filter(([seconds]) => seconds <= (budget.option.most ?? Infinity))
    .map(([seconds, text]) => h("button", { type: "button", class: "preset", on: { click: () => { budget.input.value = seconds; } } }, text))));
  target.input.value = target.option.default;
  target.input.setAttribute("list", "targets");
  const targets = h("datalist", { id: "targets" });
  json("/v1/devices", { signal }).then(({ items }) => show(targets, items.map((device) => h("option", { value: device.name }, device.here ? "this machine" : "")))).catch(() => {});
  const advanced = h("details", { class: "more-options" }, h("summary", {}, "Advanced options"), h("div", { class: "fields" }, more.map((name) => fields[name].element)));
  const element = h("div", { class: "options" }, h("div", { class: "fields" }, FIRST.map((name) => fields[name].element)), targets, advanced);
  return {
    element,
    values: () => Object.fromEntries(all.map((one) => [one.option.name, one.value()]).filter(([, value]) => value !== undefined)),
    invalid: () => {
      const wrong = all.map((one) => one.invalid()).find(Boolean) ?? null;
      if (wrong && advanced.contains(advanced.querySelector(wrong.field))) advanced.open = true;
      return wrong;
    },
    cluster: (file) => { all.forEach((one) => one.choose?.(file !== null)); training.plans(file !== null); trains(); },
  };
}

/** The choices of an option for one device or a cluster; what was chosen stays if it can. */
function chosen(option, element, draw) {
  let shown = null;
  return (isCluster) => {
    const fitting = option.choices.filter((one) => (isCluster ? one.cluster : one.device)), names = fitting.map(({ name }) => name).join();
    if (names === shown) return;
    const now = element.value;
    show(element, draw(fitting, fitting.some(({ name }) => name === now) ? now : option.default));
    shown = names;
  };
}

/** Options within an option: those that differ from their defaults, while the form's objective is training and it has no cluster. */
function settings(option) {
  const members = option.members.map((member) => field(member));
  const element = h("details", { class: "field" }, h("summary", {}, title(option.name)), h("p", { class: "hint" }, `${option.help}.`), h("div", { class: "fields" }, members.map((one) => one.element)));
  let isPlan = false;
  const given = () => Object.fromEntries(members.map((one) => [one.option.name, one.value()]).filter(([name, value]) => value !== undefined && value !== members.find((one) => one.option.name === name).option.default));
  return {
    option, element,
    plans: (hasCluster) => { isPlan = hasCluster; },
    value: () => (element.hidden || isPlan || !Object.keys(given()).length ? undefined : given()),
    invalid: () => (element.hidden ? null : members.map((one) => one.invalid()).find(Boolean) ?? null),
  };
}

function field(option) {
  const { name, kind, least, most, above, unit } = option, id = name.replaceAll("_", "-"), isNumeric = kind === "number" || kind === "integer", isNumber = isNumeric && !option.word;
  const attributes = { id, "aria-describedby": `${id}-hint` };
  const input = option.choices.length ? h("select", attributes) : kind === "flag" ? h("input", { ...attributes, type: "checkbox" }) : h("input", { ...attributes, autocomplete: "off", spellcheck: "false", placeholder: option.unset || (PLACEHOLDERS[kind] ?? option.default),
    ...(isNumber && { type: "number", inputmode: "decimal", min: least ?? above, max: most, step: kind === "integer" ? 1 : "any" }) });
  if (isNumber && unit && !option.optional) input.value = option.default;
  const element = h("div", { class: "field" }, h("label", { for: id }, title(name) + (unit ? ` in ${unit}` : "")), input, h("p", { class: "hint", id: `${id}-hint` }, prose(`${option.help}.`)));
  const choose = option.choices.length ? chosen(option, input, (fitting, now) => fitting.map((one) => h("option", { value: one.name, selected: one.name === now }, `${title(one.name)}: ${one.help}`))) : null;
  choose?.(false);

  function value() {
    if (kind === "flag") return input.checked || undefined;
    if (input.value.trim() === "") return undefined;
    if (kind === "sizes") return Object.fromEntries(entries(input).map((one) => one.split("=")).map(([dimension, size]) => [dimension.trim(), Number(size)]));
    if (kind === "names") return entries(input);
    return isNumeric && input.value.trim() !== option.word ? Number(input.value) : input.value.trim();
  }

  function invalid() {
    const isWrong = !input.validity.valid || (isNumber && value() !== undefined && above !== null && value() <= above);
    const isNoNumber = isNumeric && Number.isNaN(value()), isMisspelt = isNoNumber || kind === "sizes" && !entries(input).every((one) => /^[^=]+=\s*[1-9]\d*$/.test(one));
    if (!isWrong && !isMisspelt) return null;
    const detail = isNoNumber ? `A number or ${option.word} is expected.` : isMisspelt ? "Expected name=size, with commas between." : input.validationMessage || `A number above ${above} is expected.`;
    return { title: title(name), detail, field: `#${id}` };
  }

  return { option, element, input, choose, value, invalid };
}
