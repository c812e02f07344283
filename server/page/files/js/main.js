// The router: which view an address shows, and what every view shares.
import { announce, h, show } from "./dom.js";
import { icon } from "./icons.js";
import { json } from "./api.js";
import { mark } from "./keys.js";
import { failure } from "./parts.js";
import { view as docs } from "./views/docs.js";
import { view as library } from "./views/library.js";
import { view as missing } from "./views/missing.js";
import { view as newRun } from "./views/new.js";
import { view as prove } from "./views/prove.js";
import { view as rule } from "./views/rule.js";
import { view as run } from "./views/run.js";
import { view as runs } from "./views/runs.js";

const ROUTES = [
  [/^\/$/, "new", newRun],
  [/^\/optimizations$/, "runs", runs],
  [/^\/optimizations\/([^/]+)$/, "runs", run],
  [/^\/library$/, "library", library],
  [/^\/library\/([^/]+)$/, "library", rule],
  [/^\/prove$/, "prove", prove],
  [/^\/docs$/, "docs", docs],
];

const main = document.getElementById("main");
let leaving = new AbortController();
let shown = null;

/** An address without the part of the page that it names. */
const viewOf = ({ pathname, search }) => pathname + search;

/** Shows another address. */
export function navigate(address, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"]({}, "", address);
  return render(!replace);
}

async function render(isMove) {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  shown = viewOf(location);
  const [found, name, view] = match(location.pathname);
  for (const link of document.querySelectorAll("[data-nav]")) {
    if (link.dataset.nav === name) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  const root = h("div", { class: "wrap" });
  const context = {
    root, signal, navigate,
    argument: found?.[1] ? decodeURIComponent(found[1]) : null,
    query: new URLSearchParams(location.search),
    title: (text) => { document.title = text ? `${text} · superopt` : "superopt"; },
  };
  try {
    show(main, root);
    if (isMove) scrollTo(0, 0);
    const ready = view(context);
    if (isMove) keepFocus(root, signal);
    await ready;
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    show(main, root);
    show(root, h("h1", { class: "hidden" }, document.title), failure(error, () => render(false)));
  }
  if (isMove && !signal.aborted) announce(document.title);
}

function match(path) {
  for (const [pattern, name, view] of ROUTES) {
    const found = pattern.exec(path);
    if (found) return [found, name, view];
  }
  return [null, "", missing];
}

/** The heading has the focus until people move it, also when it is replaced by what was loaded. */
function keepFocus(root, signal) {
  focusHeading(root);
  const observer = new MutationObserver(() => { if (document.activeElement === document.body) focusHeading(root); });
  observer.observe(root, { childList: true });
  for (const event of ["keydown", "pointerdown"]) addEventListener(event, () => observer.disconnect(), { once: true, signal });
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
}

function focusHeading(root) {
  const heading = root.querySelector("h1");
  if (!heading) return main.focus({ preventScroll: true });
  heading.tabIndex = -1;
  return heading.focus({ preventScroll: true });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (!ROUTES.some(([pattern]) => pattern.test(link.pathname))) return;
  if (link.hash && viewOf(link) === shown) return; // A part of this page: the browser goes there, and what people filled in stays.
  event.preventDefault();
  if (link.href !== location.href) navigate(link.href); else render(false);
});
addEventListener("popstate", () => { if (viewOf(location) !== shown) render(false); });
addEventListener("superopt-back", () => { if (main.querySelector("[data-failed]")) render(false); });
for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());

const THEMES = { system: "dark", dark: "light", light: "system" };
const SIGNS = { system: "system", dark: "moon", light: "sun" };

function showTheme() {
  const now = document.documentElement.dataset.theme ?? "system";
  const button = document.getElementById("theme-button");
  show(button, icon(SIGNS[now]), h("span", { class: "hidden" }, `Colours: ${now}`));
  button.title = `Colours: ${now}`;
}

document.getElementById("theme-button").addEventListener("click", () => {
  const next = THEMES[document.documentElement.dataset.theme ?? "system"];
  if (next === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = next;
  try { localStorage.setItem("superopt-theme", next); } catch { /* not kept */ }
  showTheme();
  announce(`Colours: ${next}`);
});

showTheme();
mark();
render(false);
json("/page/choices").then(({ version }) => { document.getElementById("version").textContent = `superopt ${version}`; }).catch(() => {});
