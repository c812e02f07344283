// The parts of the graph that changed, drawn before and after.
import { h, show } from "../dom.js";
import { change, plural, signed } from "../format.js";
import { json } from "../api.js";
import { drawn } from "../pictures.js";
import { growing } from "../parts.js";

/** What was rewritten; drawings come from the service when the part is near. */
export function regions({ explanation }, job, unit, signal) {
  const all = explanation?.regions ?? [];
  if (!all.length) return null;
  const address = `/page/optimizations/${encodeURIComponent(job.id)}/drawings`;
  let asked = null;
  const drawings = () => (asked ??= json(address, { signal }).catch((error) => { asked = null; throw error; }));
  const [list, more] = growing(all, (region, place) => article(region, place, unit, drawings), { step: 6, parent: h("div", { class: "regions" }), noun: "parts" });
  return [h("p", { class: "lead" }, "Only changed regions: before, arrow, after. Regions rewritten in the same way are shown once."), list, more];
}

function article(region, place, unit, drawings) {
  const picture = h("div", { class: "picture-place" }, region.before ? h("div", { class: "bone tall" }) : h("p", { class: "soft" }, "Too large to be drawn."));
  if (region.before) whenNear(picture, async () => {
    try {
      const found = (await drawings()).regions[place];
      show(picture, found ? drawn(found.svg, found.text) : h("p", { class: "soft" }, "Too large to be drawn."));
    } catch (error) { if (error.name !== "AbortError") show(picture, h("p", { class: "soft" }, error.message)); }
  });
  const gain = region.cost_before - region.cost_after;
  return h("article", { class: "region" },
    h("header", {}, h("h3", {}, plural(region.count, "place")), h("span", { class: gain > 0 ? "good strong" : "bad" }, signed(gain, unit)),
      h("small", {}, `${change(region.cost_before, region.cost_after, unit)} predicted, including adjacent kernels`)),
    h("p", { class: "soft fine" }, `${operators(region.operators_before)} → ${operators(region.operators_after)}`),
    picture,
    region.symbols?.length > 0 && h("ul", { class: "symbols" }, region.symbols.map((one) => h("li", {}, h("code", {}, one.symbol), ` = ${one.name} `, h("code", {}, one.type)))),
    region.nodes.length > 0 && h("details", {}, h("summary", {}, `Nodes replaced: ${region.nodes.length >= 12 ? "the first " : ""}${region.nodes.length}`), h("p", {}, h("code", {}, region.nodes.join(", ")))));
}

const operators = (counts) => Object.entries(counts).map(([name, times]) => (times > 1 ? `${times} × ${name}` : name)).join(", ") || "nothing";

/** Calls once the element is nearly on the screen. */
export function whenNear(element, call) {
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    call();
  }, { rootMargin: "400px" });
  observer.observe(element);
}
