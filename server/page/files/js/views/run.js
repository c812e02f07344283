// One optimization: live while it lasts, then its report.
import { announce, h, show } from "../dom.js";
import { ago, amount, count, duration, moment, percent, plural, saved, written } from "../format.js";
import { icon } from "../icons.js";
import { json, save } from "../api.js";
import { chip, empty, facts, FINAL, heading, loading, notice, stateWord } from "../parts.js";
import { curve } from "../plot.js";
import { follow } from "../live.js";
import { report } from "./report.js";

const UNITS = { latency: "us", throughput: "us", training: "us", memory: "bytes", flops: "flops", traffic: "bytes", launches: "kernels" };
const PHASES = [["pricing", "Measure operators"], ["search", "Search"], ["check", "Compare outputs"], ["timing", "Time whole models"]];
const SPEAK = 5000, DRAW = 150;

/** The run of the address. */
export async function view({ root, argument, signal, title }) {
  const path = `/v1/optimizations/${encodeURIComponent(argument)}`;
  show(root, h("h1", { class: "hidden" }, "Run"), loading("Loading the run", 6));
  let job = await json(path, { signal });
  const live = { points: [], latest: null, broken: null };
  const head = h("div"), body = h("div"), problem = h("div");
  show(root, head, problem, body);
  title(job.name);
  described();
  if (FINAL.has(job.state)) return ended();
  const screen = liveScreen(job);
  show(body, screen.element);
  const clock = setInterval(() => screen.tick(job), 1000);
  signal.addEventListener("abort", () => clearInterval(clock));
  await follow(job.links.events, { signal, ended: () => FINAL.has(job.state), onEvent, onBroken, onResumed });
  clearInterval(clock);
  return signal.aborted ? undefined : ended();

  async function onEvent(kind, content) {
    if (kind === "progress") {
      live.latest = content;
      if (Number.isFinite(content.best_cost)) live.points.push([content.seconds, content.best_cost]);
      screen.update(live);
      return;
    }
    if (kind === "state" && content.state === job.state) return;
    const before = job.state;
    job = await json(path, { signal });
    if (job.state === "running" && before !== "running") live.points.length = 0;
    described();
    screen.tick(job);
    announce(`The run is ${stateWord(job.state).toLowerCase()}`);
  }

  function onBroken(seconds) {
    show(problem, h("p", { class: "notice warm", role: "status" }, icon("alert"), `The connection was lost; retrying in ${duration(seconds)}. The run goes on.`));
  }

  function onResumed() { show(problem); }

  function described() {
    const hadFocus = head.contains(document.activeElement) && document.activeElement.tagName === "H1";
    show(head, header(job, cancel));
    if (hadFocus) { head.querySelector("h1").tabIndex = -1; head.querySelector("h1").focus({ preventScroll: true }); }
  }

  async function cancel(event) {
    event.target.disabled = true;
    show(problem);
    try {
      job = await json(path, { method: "DELETE", signal });
      described();
      announce(`The run is ${stateWord(job.state).toLowerCase()}`);
    } catch (error) { if (error.name !== "AbortError") show(problem, notice(error)); event.target.disabled = false; }
  }

  async function ended() {
    show(problem);
    if (job.state !== "succeeded") return show(body, unhappy(job));
    show(body, loading("Loading the report", 8));
    const content = await json(job.links.report, { signal });
    if (!signal.aborted) show(body, report(content, job, signal));
    return undefined;
  }
}

function header(job, cancel) {
  const isDone = FINAL.has(job.state), ok = job.state === "succeeded";
  const made = h("time", { datetime: job.created_at, title: moment(job.created_at) }, ago(job.created_at));
  const took = job.started_at && job.finished_at ? ` · took ${duration((new Date(job.finished_at) - new Date(job.started_at)) / 1000)}` : "";
  const reused = job.reused_from ? [" · ", h("a", { href: `/optimizations/${job.reused_from}` }, "result of an earlier run")] : null;
  const attempts = job.attempts > 1 ? ` · attempt ${job.attempts}` : "";
  const page = `/page/optimizations/${encodeURIComponent(job.id)}/report.html`;
  const result = job.files.find((file) => file.role === "result"), stem = job.name.replace(/\.onnx$/, "");
  return heading(job.name, {
    crumbs: [h("a", { href: "/optimizations" }, "Runs"), " / ", h("code", {}, job.id)],
    lead: [chip(job.state), " ", h("span", { class: "run-meta" }, job.options.objective ?? "latency", ` · ${job.options.target ?? "cpu"} · submitted `, made, took, attempts, reused)],
    aside: h("div", { class: "actions" },
      ok && h("button", { type: "button", on: { click: () => save(job.links.model, result?.name) } }, icon("download"), "Model"),
      ok && h("button", { type: "button", class: "plain", on: { click: () => save(page, `${stem}-report.html`) } }, "Report, HTML"),
      ok && h("button", { type: "button", class: "plain", on: { click: () => save(job.links.report, `${stem}-report.json`) } }, "JSON"),
      !isDone && h("button", { type: "button", class: "plain danger", disabled: job.state === "cancelling", on: { click: cancel } }, icon("stop"), job.state === "cancelling" ? "Cancelling…" : "Cancel")),
  });
}

function liveScreen(first) {
  const unit = UNITS[first.options.objective ?? "latency"] ?? "us", budget = first.options.budget ?? 60;
  const cost = h("strong", { class: "live-cost" }, "–"), delta = h("span", { class: "live-delta" }), plot = h("div", { class: "wide" });
  const stages = h("ol", { class: "stages" }), bar = h("progress", { max: budget, value: 0, "aria-label": "Time used of the budget" });
  const clock = h("span", { class: "soft number" }), tried = h("span", { class: "soft" });
  const element = h("section", { class: "panel live", "aria-labelledby": "live-title" },
    h("h2", { id: "live-title", class: "hidden" }, "Progress"), stages,
    h("div", { class: "live-head" }, h("div", {}, h("p", { class: "eyebrow" }, "Best predicted cost"), cost, delta), tried),
    plot, h("div", { class: "live-foot" }, bar, clock));
  const phases = first.options.objective === "training" ? [["step", "Build the step"], ...PHASES] : PHASES;
  let spoken = 0, phase = "", timer = null, furthest = 0;
  staged();
  show(plot, empty("clock", first.state === "queued" ? "Waiting for a worker" : "Getting ready", "The cost appears as soon as the operators of the model are priced."));

  function staged() {
    const at = phases.findIndex(([name]) => name === phase);
    show(stages, phases.map(([name, words], place) => h("li", { class: place < at ? "past" : place === at ? "now" : "", "aria-current": place === at ? "step" : null },
      place < at ? icon("check", 14) : null, words, place < at ? h("span", { class: "hidden" }, ", done") : null)));
  }

  function update({ points, latest }) {
    if (latest.phase !== phase) { phase = latest.phase; staged(); }
    const before = latest.cost_before, best = latest.best_cost, share = saved(before, best);
    show(tried, plural(latest.candidates, "candidate"), " tried");
    tickTo(latest.seconds);
    if (!Number.isFinite(best)) return;
    cost.textContent = amount(best, unit);
    show(delta, share > 0.0005 ? [h("span", { class: "good" }, `−${percent(share)}`), h("span", { class: "soft" }, ` from ${amount(before, unit)}`)] : h("span", { class: "soft" }, "as the original"));
    timer ??= setTimeout(() => { timer = null; show(plot, curve(points, Math.max(budget, points.at(-1)?.[0] ?? 0), unit, { before, until: points.at(-1)[0] })); }, DRAW);
    if (performance.now() - spoken > SPEAK) {
      spoken = performance.now();
      announce(`${phases.find(([name]) => name === phase)?.[1] ?? phase}: ${count(latest.candidates)} candidates, best cost ${amount(best, unit)}, ${percent(share)} less`);
    }
  }

  /** The time shown never goes back: the clock here and that of the job differ. */
  function tickTo(seconds) {
    furthest = Math.max(furthest, seconds);
    bar.value = Math.min(furthest, budget);
    show(clock, `${duration(furthest)} of ${duration(budget)}`);
  }

  function tick(job) {
    if (job.state === "queued") show(clock, `waiting for ${duration((Date.now() - new Date(job.created_at)) / 1000)}`);
    else if (job.started_at) tickTo(Math.max(0, (Date.now() - new Date(job.started_at)) / 1000));
  }

  return { element, update, tick };
}

function unhappy(job) {
  const words = { cancelled: ["stop", "Cancelled", "The run was cancelled. Nothing was written."], failed: ["alert", "The run failed", ""], crashed: ["alert", "The run crashed", ""] }[job.state];
  return h("section", { class: "panel", "aria-labelledby": "end-title" },
    h("div", { class: "end" }, icon(words[0], 26), h("div", {}, h("h2", { id: "end-title" }, job.error?.title ?? words[1]), h("p", { class: "soft pre" }, job.error?.detail ?? words[2]),
      h("p", { class: "actions" }, h("a", { class: "button", href: "/" }, "Submit again")))),
    h("h3", {}, "Options"), facts(Object.entries(job.options).map(([name, value]) => [name.replaceAll("_", " "), written(value)])));
}
