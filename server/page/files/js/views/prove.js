// Judging an equation: proved, refuted with a counterexample, or unproved.
import { announce, h, show } from "../dom.js";
import { json } from "../api.js";
import { choices } from "../choices.js";
import { duration } from "../format.js";
import { chip, equationText, heading, loading, notice, stateWord } from "../parts.js";
import { pictureOf } from "../pictures.js";
import { icon } from "../icons.js";
import { proofOf } from "./proof.js";

const EXAMPLES = [
  ["Two products as one", "(matmul(x, y), matmul(x, z)) => (split0[axis=-1](matmul(x, concat[axis=-1](y, z))), split1[axis=-1](matmul(x, concat[axis=-1](y, z))))"],
  ["Associativity", "matmul(x, matmul(y, z)) => matmul(matmul(x, y), z)"],
  ["Relu twice", "relu(relu(x)) => relu(x)"],
  ["A false one", "matmul(x, y) => matmul(y, x)"],
  ["Transposed product", "transpose(matmul(x, y)) => matmul(transpose(y), transpose(x))"],
];
const TYPED = 400;
const WORDS = {
  verified: "It follows from the axioms, for every assignment of types that its condition allows.",
  refuted: "It is false: the counterexample below computes different results on both sides.",
  unproved: "Neither a proof nor a counterexample was found. Such a rule is never applied.",
};

/** The form; ?equation= fills it. */
export async function view({ root, signal, query, title }) {
  title("Prove an equation");
  const field = h("textarea", { id: "equation", rows: "3", maxlength: "4000", required: true, spellcheck: "false", autocapitalize: "off", "aria-describedby": "equation-hint equation-wrong" }, );
  field.value = query.get("equation") ?? EXAMPLES[0][1];
  const picture = h("div", { class: "preview" }), verdict = h("div"), wrong = h("p", { class: "field-error", id: "equation-wrong", role: "status" });
  const button = h("button", {}, "Prove");
  const hint = h("p", { class: "hint", id: "equation-hint" }, "Lower-case names are tensors; ", h("code", {}, "=>"), " one way, ", h("code", {}, "<=>"), " both; conditions after ", h("code", {}, "where"), ".");
  show(root, heading("Prove an equation", { lead: "Write two graphs. The verifier looks for a counterexample by exact evaluation, then for a proof from the axioms." }),
    h("form", { class: "panel", on: { submit: prove } },
      h("div", { class: "field" }, h("label", { for: "equation" }, "Equation"), field, wrong, hint),
      h("div", { class: "examples", role: "group", "aria-label": "Examples" }, h("span", { class: "soft" }, "Try"), EXAMPLES.map(([name, equation]) => h("button", { type: "button", class: "preset", on: { click: () => { field.value = equation; preview(); field.focus(); } } }, name))),
      picture, h("div", { class: "actions" }, button)),
    verdict);
  let timer = null, drawing = null;
  field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(preview, TYPED); });
  field.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); event.target.form.requestSubmit(); } });
  signal.addEventListener("abort", () => clearTimeout(timer));
  await preview();

  async function preview() {
    drawing?.abort();
    drawing = new AbortController();
    const mine = drawing;
    if (!field.value.trim()) return show(picture);
    try {
      const drawn = await pictureOf(field.value.trim(), mine.signal);
      if (mine.signal.aborted || signal.aborted) return undefined;
      show(picture, drawn);
      show(wrong);
      field.removeAttribute("aria-invalid");
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      show(picture);
      show(wrong, error.detail || error.message);
      field.setAttribute("aria-invalid", "true");
    }
    return undefined;
  }

  async function prove(event) {
    event.preventDefault();
    const equation = field.value.trim();
    if (!equation) return field.focus();
    button.disabled = true;
    const limit = (await choices().catch(() => null))?.max_prove_seconds;
    show(verdict, h("section", { class: "panel part" }, h("p", { class: "proving", role: "status" }, icon("spin"), `Proving${limit ? `, for ${duration(limit)} at most` : ""}…`), loading("Proving", 3)));
    history.replaceState({}, "", `/prove?${new URLSearchParams({ equation })}`);
    try {
      const answer = await json("/v1/substitutions/prove", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ equation }), signal });
      show(verdict, judged(answer));
      announce(stateWord(answer.verdict));
    } catch (error) { if (error.name !== "AbortError") show(verdict, notice(error)); }
    finally { button.disabled = false; }
    return undefined;
  }
}

function judged(answer) {
  return h("section", { class: `panel part judged ${answer.verdict}`, "aria-labelledby": "verdict-title" },
    h("h2", { id: "verdict-title" }, stateWord(answer.verdict), " ", chip(answer.verdict)),
    h("p", { class: "lead" }, WORDS[answer.verdict], answer.known && [" It is in the library: ", h("a", { href: `/library/${answer.id}` }, `rule ${answer.id}`), `, ${answer.known}.`]),
    equationText(answer.equation), proofOf(answer));
}
