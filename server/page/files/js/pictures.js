// Drawings of equations: SVG of this service, put into the page without its style so that the page's colours hold.
import { h, show } from "./dom.js";
import { call } from "./api.js";
import { abbreviated } from "./format.js";

/** As much smaller as a drawing is shown where there is no room. */
const SMALLEST = 0.66;

/** The drawing in an SVG text as an element that scrolls. `text` says it in words. */
export function drawn(text, words) {
  const svg = new DOMParser().parseFromString(text.replace(/<style>[^]*?<\/style>/g, ""), "image/svg+xml").documentElement;
  if (svg.nodeName !== "svg") return h("p", { class: "soft" }, "The drawing cannot be shown.");
  for (const unwanted of svg.querySelectorAll("script, foreignObject, title, desc")) unwanted.remove();
  svg.classList.add("drawing");
  svg.setAttribute("aria-hidden", "true");
  svg.style.minWidth = `${Math.round(SMALLEST * Number(svg.getAttribute("width")))}px`;
  return h("div", { class: "picture", tabindex: "0", role: "img", "aria-label": words }, document.adoptNode(svg));
}

/** The drawing of an equation, when it has come. */
export async function pictureOf(equation, signal) {
  const text = await (await call(`/page/drawing?${new URLSearchParams({ equation })}`, { signal })).text();
  return drawn(text, `Drawing of ${abbreviated(equation)}`);
}

/** Details that fetch the drawing when they are opened. */
export function pictureOnDemand(equation, words = "Drawing") {
  const place = h("div");
  let asked = false;
  return h("details", { on: { toggle: async ({ target }) => {
    if (!target.open || asked) return;
    asked = true;
    show(place, h("p", { class: "soft" }, "Drawing…"));
    try { show(place, await pictureOf(equation)); } catch (error) { asked = false; show(place, h("p", { class: "soft" }, error.message)); }
  } } }, h("summary", {}, words), place);
}
