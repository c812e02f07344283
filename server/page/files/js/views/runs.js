// All optimizations, newest first: filtered by state, page by page.
import { h, show } from "../dom.js";
import { ago, duration, moment } from "../format.js";
import { json } from "../api.js";
import { chip, empty, FINAL, heading, into } from "../parts.js";

const STATES = [["", "All"], ["running", "Running"], ["queued", "Waiting"], ["succeeded", "Succeeded"], ["failed", "Failed"], ["cancelled", "Cancelled"], ["crashed", "Crashed"]];
const REFRESH = 4000;

/** The list for ?state= and ?cursor=. */
export async function view({ root, signal, query, title }) {
  const state = query.get("state") ?? "", cursor = query.get("cursor");
  title("Runs");
  const place = h("div", { class: "panel flush" });
  show(root, heading("Runs", { lead: "Models submitted to this service, newest first.", aside: h("a", { class: "button", href: "/" }, "New run") }),
    h("nav", { class: "tabs", "aria-label": "Filter by state" }, STATES.map(([name, words]) =>
      h("a", { href: name ? `/optimizations?state=${name}` : "/optimizations", "aria-current": name === state ? "true" : null }, words))), place);
  const address = new URLSearchParams({ limit: "25" });
  if (state) address.set("state", state);
  if (cursor) address.set("cursor", cursor);
  const load = async () => {
    const page = await json(`/v1/optimizations?${address}`, { signal });
    plan(page.items);
    return [page.items.length ? runTable(page.items) : nothing(state, cursor), pager(state, cursor, page.next)];
  };
  function plan(items) {
    if (!items.some((job) => !FINAL.has(job.state))) return;
    const timer = setTimeout(async () => {
      if (document.hidden || place.contains(document.activeElement)) return plan(items);
      try { const shown = await load(); if (!signal.aborted) show(place, shown); } catch { if (!signal.aborted) plan(items); }
      return undefined;
    }, REFRESH);
    signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  }
  await into(place, "Loading the runs", load, signal);
}

/** The latest runs, as links. */
export function latestRuns(jobs) {
  if (!jobs.length) return empty("graph", "No runs yet", "Submitted models are listed here.");
  return h("ul", { class: "latest" }, jobs.map((job) => h("li", {},
    h("a", { href: `/optimizations/${job.id}` },
      h("span", { class: "run-name", title: job.name }, job.name), h("span", { class: "run-when soft" }, when(job), job.outcome && [" · ", result(job)]), chip(job.state)))));
}

function runTable(jobs) {
  return h("table", { class: "runs" }, h("caption", { class: "hidden" }, "Runs"),
    h("thead", {}, h("tr", {}, ["Model", "State", "Objective", "Result", "Submitted", "Took"].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, jobs.map((job) => h("tr", {},
      h("th", { scope: "row", class: "run-name" }, h("a", { href: `/optimizations/${job.id}`, title: job.name }, job.name)),
      h("td", { class: "run-state" }, chip(job.state)),
      h("td", { class: "run-what soft" }, [job.options.objective ?? "latency", job.options.target].filter(Boolean).join(" · ")),
      h("td", { class: "run-gain" }, result(job)),
      h("td", { class: "run-when soft" }, when(job)),
      h("td", { class: "run-took soft" }, took(job))))));
}

/** What came of a run: the measured ratio, a predicted one where nothing was measured, or that nothing changed. */
function result({ outcome }) {
  if (!outcome) return "";
  if (outcome.returned !== "optimized") return h("span", { class: "soft" }, "unchanged");
  if (!outcome.ratio) return h("span", {}, "optimised");
  const text = `${outcome.ratio.toFixed(2)}×`;
  return outcome.measured ? h("strong", { class: "good", title: "Measured: the original's time divided by that of the result" }, text)
    : h("span", { title: "Predicted: nothing was measured" }, `${text} predicted`);
}

const when = (job) => h("time", { datetime: job.created_at, title: moment(job.created_at) }, ago(job.created_at));
const took = ({ started_at: from, finished_at: to }) => (from && to ? duration((new Date(to) - new Date(from)) / 1000) : "");

function nothing(state, cursor) {
  if (cursor) return empty("graph", "Nothing older", "The list ends here.");
  if (state) return empty("graph", "No runs in this state", "Choose another state above.");
  return empty("graph", "No runs yet", "Submitted models are listed here.", h("a", { class: "button", href: "/" }, "Optimise a model"));
}

function pager(state, cursor, next) {
  if (!cursor && !next) return null;
  const query = (at) => `/optimizations?${new URLSearchParams({ ...(state && { state }), ...(at && { cursor: at }) })}`;
  return h("nav", { class: "pager", "aria-label": "Pages" },
    cursor ? h("a", { class: "button plain", href: query(null) }, "First page") : h("span"),
    next ? h("a", { class: "button plain", href: query(next), rel: "next" }, "Next") : h("span"));
}
