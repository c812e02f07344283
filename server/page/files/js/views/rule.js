// One rule of the library: equation, drawing, proof.
import { h, show } from "../dom.js";
import { json } from "../api.js";
import { chip, equationText, facts, heading, into, loading } from "../parts.js";
import { pictureOf } from "../pictures.js";
import { proofOf } from "./proof.js";
import { counted } from "./report-rules.js";

/** The rule of the address. */
export async function view({ root, argument, signal, title }) {
  show(root, h("h1", { class: "hidden" }, "Rule"), loading("Loading the rule", 6));
  const rule = await json(`/v1/substitutions/${encodeURIComponent(argument)}`, { signal });
  title(`Rule ${rule.id}`);
  const picture = h("div");
  show(root, heading("Rule", {
    crumbs: [h("a", { href: "/library" }, "Library"), " / ", h("code", {}, rule.id)],
    lead: [chip(rule.status)],
    aside: h("a", { class: "button plain", href: `/prove?${new URLSearchParams({ equation: rule.equation })}` }, "Prove it again"),
  }),
  h("section", { class: "panel", "aria-labelledby": "equation-title" }, h("h2", { id: "equation-title", class: "hidden" }, "Equation"),
    equationText(rule.equation, "big-equation"), picture),
  rule.evidence.length > 0 && h("section", { class: "panel part", "aria-labelledby": "evidence-title" }, h("h2", { id: "evidence-title" }, "Evidence against it"),
    h("p", { class: "lead" }, "Applying it changed the outputs of a model. It is not used, regardless of its proof."),
    rule.evidence.map((found) => facts([["model", found.model], ["sha256", h("code", {}, found.sha256)], ["found by", found.found_by], ["seed", String(found.seed)], ["difference", found.difference]]))),
  h("section", { class: "panel part", "aria-labelledby": "proof-title" }, h("h2", { id: "proof-title" }, "Proof"), rule.proof ? proofOf(rule.proof) : h("p", { class: "lead" }, "It has not been verified yet.")),
  h("section", { class: "panel part", "aria-labelledby": "facts-title" }, h("h2", { id: "facts-title" }, "About it"),
    facts([["operators replaced", counted(rule.operators_source) || "none"], ["by", counted(rule.operators_target) || "none"], ["condition", rule.conditions || null], ["found by", rule.provenance]])));
  await into(picture, "Drawing the rule", () => pictureOf(rule.equation, signal), signal);
}
