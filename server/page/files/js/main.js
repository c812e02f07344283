// The router: which view an address shows, and what every view shares.
import { announce, h, show } from "./dom.js";
import { icon } from "./icons.js";
import { json } from "./api.js";
import { mark } from "./keys.js";
import { failure } from "./parts.js";

const ROUTES = [
  [/^\/$/, "new", () => import("./views/new.js")],
  [/^\/optimizations$/, "runs", () => import("./views/runs.js")],
  [/^\/optimizations\/([^/]+)$/, "runs", () => import("./views/run.js")],
  [/^\/library$/, "library", () => import("./views/library.js")],
  [/^\/library\/([^/]+)$/, "library", () => import("./views/rule.js")],
  [/^\/prove$/, "prove", () => import("./views/prove.js")],
];

const main = document.getElementById("main");
let leaving = new AbortController();

/** Shows another address. */
export function navigate(address, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"]({}, "", address);
  return render(!replace);
}

async function render(isMove) {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const [found, name, load] = match(location.pathname);
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
    const { view } = await load();
    if (signal.aborted) return;
    show(main, root);
    if (isMove) scrollTo(0, 0);
    const shown = view(context);
    if (isMove) focusHeading(root);
    await shown;
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    show(main, root);
    show(root, failure(error, () => render(false)));
  }
  if (isMove && !signal.aborted) announce(document.title);
}

function match(path) {
  for (const [pattern, name, load] of ROUTES) {
    const found = pattern.exec(path);
    if (found) return [found, name, load];
  }
  return [null, "", () => import("./views/missing.js")];
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
  event.preventDefault();
  if (link.href !== location.href) navigate(link.href); else render(false);
});
addEventListener("popstate", () => render(false));
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
