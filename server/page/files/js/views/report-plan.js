// The plan for a cluster, whatever is in it: values, tables, and a timeline of devices.
import { h, s } from "../dom.js";
import { amount, plural, words, written } from "../format.js";
import { facts, growing, table } from "../parts.js";
import { ticks } from "../plot.js";

const MOST_BARS = 3000, MOST_DEVICES = 8;
const ROW = 26, LEFT = 150, WIDTH = 960;

/** The parts of `report.parallel`, what is not known by name as values and tables; nothing where there is no plan. */
export function plan(parallel) {
  if (!parallel) return null;
  const { timeline, operators, memory, baselines, predicted, timeline_is_cut: isCut, ...rest } = parallel;
  const values = Object.entries(rest), unit = predicted?.unit ?? "us";
  const plain = values.filter(([, value]) => !isTable(value) && !isObject(value));
  return [
    h("div", { class: "columns" },
      predicted && h("div", {}, h("h3", {}, "Prediction"), facts([["in all", amount(predicted.total, unit)], ["busiest device", amount(predicted.compute, unit)], ["busiest link", amount(predicted.communication, unit)]])),
      plain.length > 0 && h("div", {}, h("h3", {}, "Plan"), facts(plain.map(([name, value]) => [words(name), valued(name, value)]))),
      values.filter(([, value]) => isObject(value)).map(([name, value]) => h("div", {}, h("h3", {}, title(name)), ofObject(name, value)))),
    isTable(baselines) && [h("h3", {}, "Comparison with other plans"), bars([...(predicted ? [{ name: "this plan", total: predicted.total }] : []), ...baselines].map((one) =>
      ({ name: words(one.name), share: one.total, text: amount(one.total, unit), isOwn: one.name === "this plan" })))],
    Array.isArray(timeline) && timeline.length > 0 && [h("h3", {}, "Timeline"), gantt(timeline), isCut && h("p", { class: "soft fine" }, "Only the beginning is shown.")],
    isTable(memory) ? [h("h3", {}, "Memory"), memoryOf(memory)] : memory && [h("h3", {}, "Memory"), ofObject("memory", memory)],
    isTable(operators) && [h("h3", {}, "Operators"), tableOf("operators", operators.map(operatorRow))],
    values.filter(([, value]) => isTable(value)).map(([name, value]) => [h("h3", {}, title(name)), tableOf(name, value)]),
  ];
}

/** Degrees with the kind of dimension that each divides. */
function operatorRow({ degrees, kinds, rule, ...row }) {
  if (!Array.isArray(degrees) || !Array.isArray(kinds)) return { ...row, degrees, rule };
  const divided = degrees.map((degree, place) => (degree > 1 ? `${kinds[place]} ${degree}` : null)).filter(Boolean);
  const { node, operator, ...others } = row;
  return { node, operator, degrees: divided.join(" × ") || "whole", ...others, rule };
}

function bars(rows, most = Math.max(...rows.map((row) => row.share), 1e-12)) {
  return h("ul", { class: "bars plain-bars" }, rows.map((row) => h("li", { class: row.isOwn ? "own" : "" },
    h("div", { class: "bar-head" }, h("b", {}, row.name), h("span", {}, row.text)),
    h("div", { class: "track", "aria-hidden": "true" }, h("i", { style: { width: `${(100 * row.share / most).toFixed(2)}%` } })))));
}

function memoryOf(devices) {
  const fullest = [...devices].sort((a, b) => b.bytes / b.limit - a.bytes / a.limit);
  return [
    h("p", { class: "soft fine" }, fullest.length > MOST_DEVICES ? `The ${MOST_DEVICES} fullest of ${plural(fullest.length, "device")}.` : "Sorted by memory use."),
    bars(fullest.slice(0, MOST_DEVICES).map(({ device, bytes, limit }) => ({ name: `device ${device}`, share: bytes / limit, text: `${amount(bytes, "bytes")} of ${amount(limit, "bytes")}` })), 1),
  ];
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isTable = (value) => Array.isArray(value) && value.length > 0 && value.every(isObject);
const title = (name) => words(name).replace(/^./, (letter) => letter.toUpperCase());

/** A number by the unit that its name ends with, if it does. */
function valued(name, value) {
  if (typeof value === "number" && /_us$|microseconds$/.test(name)) return amount(value, "us");
  if (typeof value === "number" && /bytes$/.test(name)) return amount(value, "bytes");
  return written(value);
}

/** An object of objects of the same kind is a table by name; other objects are names and values. */
function ofObject(name, value) {
  const entries = Object.entries(value);
  if (entries.length > 1 && entries.every(([, held]) => isObject(held))) return tableOf(name, entries.map(([key, held]) => ({ name: key, ...held })));
  return facts(entries.map(([key, held]) => [words(key), valued(key, held)]));
}

function tableOf(name, rows) {
  const heads = [...new Set(rows.slice(0, 200).flatMap(Object.keys))];
  const isNumber = (head) => rows.slice(0, 50).every((row) => row[head] === undefined || typeof row[head] === "number");
  const kinds = heads.map((head) => (isNumber(head) ? "number" : ""));
  const [body, more] = growing(rows, (row) => h("tr", {}, heads.map((head, place) => h("td", { class: kinds[place] }, cell(head, row[head])))), { parent: h("tbody"), step: 50, noun: "rows" });
  return [table(title(name), heads.map((head, place) => [title(head), kinds[place]]), body), more];
}

function cell(head, value) {
  if (value === null || value === undefined) return "–";
  if (head === "devices" && Array.isArray(value) && value.every(Number.isInteger)) return spans(value);
  if (head === "rule") return [value].flat().map((id, place) => [place > 0 && ", ", ruleOf(id)]);
  return typeof value === "string" && value.length > 24 ? h("code", {}, value) : valued(head, value);
}

/** A rule of the library, or an axiom by its name. */
function ruleOf(id) {
  return id.startsWith("axiom:") ? h("code", {}, id) : h("a", { href: `/library/${id}` }, h("code", {}, id));
}

/** Devices 0, 1, 2, 3, 8 as 0–3, 8. */
export function spans(numbers) {
  const found = [];
  for (const number of numbers) {
    const last = found.at(-1);
    if (last && number === last[1] + 1) last[1] = number; else found.push([number, number]);
  }
  return found.map(([from, to]) => (from === to ? from : `${from}–${to}`)).join(", ") || "–";
}

const startOf = (event) => event.start ?? event.start_us ?? event.begin ?? event.ts ?? 0;
const endOf = (event) => event.end ?? event.end_us ?? event.finish ?? startOf(event) + (event.duration ?? event.dur ?? event.duration_us ?? 0);
const rowOf = (event) => (typeof event.device === "number" ? `device ${event.device}` : String(event.device ?? event.resource ?? event.link ?? event.tid ?? "?"));
const nameOf = (event) => String(event.name ?? event.operator ?? event.node ?? event.kind ?? "");
const kindOf = ({ kind = "" }) => (/^(forward|compute|update)/.test(kind) ? "works" : /^backward/.test(kind) ? "works back" : "moves");

/** What each device and link does when. */
function gantt(events) {
  const shown = [...events].sort((a, b) => endOf(b) - startOf(b) - endOf(a) + startOf(a)).slice(0, MOST_BARS);
  const lanes = [...new Set(events.map(rowOf))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const places = new Map(lanes.map((lane, place) => [lane, place]));
  const end = events.reduce((most, event) => Math.max(most, endOf(event)), 0) || 1;
  const x = (time) => LEFT + (time / end) * (WIDTH - LEFT - 30), height = lanes.length * ROW + 34;
  const svg = s("svg", { class: "gantt", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `Timeline of ${plural(lanes.length, "lane")}, ${plural(events.length, "event")}, ${amount(end, "us")} long` },
    ticks(0, end, 6).map((tick) => [s("path", { class: "grid", d: `M${x(tick)} 0V${height - 28}` }), s("text", { x: x(tick), y: height - 10 }, amount(tick, "us"))]),
    lanes.map((lane, place) => s("text", { class: "lane", x: LEFT - 8, y: place * ROW + 17 }, lane.slice(0, 22))),
    shown.map((event) => s("rect", { class: kindOf(event), x: x(startOf(event)).toFixed(2), y: places.get(rowOf(event)) * ROW + 4, width: Math.max(0.6, x(endOf(event)) - x(startOf(event))).toFixed(2), height: kindOf(event) === "moves" ? ROW / 2 - 4 : ROW - 8, rx: 2 },
      s("title", {}, `${nameOf(event)}, ${amount(startOf(event), "us")} to ${amount(endOf(event), "us")}`))));
  return [
    h("ul", { class: "legend" }, h("li", {}, h("span", { class: "swatch works" }), "computation (backward pass lighter)"), h("li", {}, h("span", { class: "swatch moves" }), "communication (half height)")),
    h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Timeline" }, svg),
    events.length > MOST_BARS && h("p", { class: "soft fine" }, `The ${MOST_BARS} longest of ${plural(events.length, "event")}.`),
  ];
}
