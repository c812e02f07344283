// What a verdict rests on: axioms, certificate, shapes, or the counterexample.
import { h } from "../dom.js";
import { abbreviated, count, words } from "../format.js";
import { equationText, facts } from "../parts.js";

/** The parts of a proof or of an answer to an equation. */
export function proofOf(proof) {
  const { axioms_used: axioms, validated_shapes: shapes, certificate } = proof;
  return [
    proof.counterexample && [h("h3", {}, "Counterexample"), h("pre", { class: "code-block", tabindex: "0" }, proof.counterexample)],
    proof.condition && [h("h3", {}, proof.condition.exact ? "It holds exactly where" : "It holds where"), equationText(proof.condition.equation),
      h("p", { class: "soft" }, `${sentence(proof.condition.verdict)} Compared on ${count(proof.condition.instances)} instances.`)],
    proof.reason && !proof.counterexample && h("p", { class: "lead" }, sentence(abbreviated(proof.reason))),
    axioms.length > 0 && [h("h3", {}, `Axioms used: ${count(axioms.length)}`), h("ul", { class: "tags" }, axioms.map((name) => h("li", { class: "tag" }, name)))],
    shapes.length > 0 && h("details", { open: shapes.length <= 6 }, h("summary", {}, `Shapes it was executed on: ${count(shapes.length)}`), h("ul", { class: "shapes" }, shapes.slice(0, 200).map((shape) => h("li", {}, h("code", {}, shape))))),
    facts([["prover", proof.prover ? `${proof.prover} ${proof.version}` : null], ["time", proof.milliseconds ? `${proof.milliseconds.toFixed(0)} ms` : null],
      ["certificate", proof.grade ? `${words(proof.grade)}, for all sizes` : null], ["also derived by", proof.confirmed_by || null]]),
    certificate && h("details", {}, h("summary", {}, "Certificate"), h("pre", { class: "code-block", tabindex: "0" }, JSON.stringify(certificate, null, 1).slice(0, 20000))),
  ];
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
