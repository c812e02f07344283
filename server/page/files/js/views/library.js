// The library of rules: searched, filtered, page by page.
import { h, show } from "../dom.js";
import { abbreviated, count, percent, plural, words } from "../format.js";
import { json } from "../api.js";
import { chip, empty, heading, into } from "../parts.js";

const STATUSES = [["verified", "Proved"], ["refuted", "Refuted"], ["unproved", "Unproved"], ["candidate", "Candidates"], ["stale", "Stale"], ["suspect", "Suspect"], ["", "All"]];
const TYPED = 250;

/** The families, and the list for ?q=, ?operator=, ?family=, ?status= and ?cursor=. */
export async function view({ root, signal, query, navigate, title }) {
  title("Library");
  const status = query.get("status") ?? "verified";
  const text = h("input", { type: "search", id: "rule-text", value: query.get("q") ?? "", placeholder: "concat(matmul(x, y)", autocomplete: "off", spellcheck: "false" });
  const operator = h("input", { id: "rule-operator", value: query.get("operator") ?? "", placeholder: "matmul", autocomplete: "off", spellcheck: "false", list: "operators" });
  const family = query.get("family") ?? "", shelf = h("nav", { class: "families", "aria-label": "Families of operators" });
  const known = h("datalist", { id: "operators" }), place = h("div", { class: "panel flush" });
  const filter = h("form", { role: "search", class: "filter", "aria-label": "Rules", on: { submit: (event) => { event.preventDefault(); search(); } } },
    h("div", { class: "field grow" }, h("label", { for: "rule-text" }, "Text in the equation"), text),
    h("div", { class: "field" }, h("label", { for: "rule-operator" }, "Operator"), operator, known));
  let timer = null;
  for (const field of [text, operator]) field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, TYPED); });
  signal.addEventListener("abort", () => clearTimeout(timer));
  show(root, heading("Library", { lead: "Rewrites that were discovered by enumeration and proved from axioms. Only proved ones are ever applied.", aside: h("a", { class: "button plain", href: "/prove" }, "Prove an equation") }),
    shelf, filter, tabs(status), place);
  into(shelf, "Loading the families", async () => familyList(await json("/page/families", { signal })), signal);
  await list(new URLSearchParams(query));

  function address(changes) {
    const wanted = { q: text.value.trim(), operator: operator.value.trim(), ...(query.has("status") && { status }), ...(family && { family }), ...changes };
    const parts = new URLSearchParams(Object.entries(wanted).filter(([name, value]) => value || (name === "status" && value === "")));
    return `/library${parts.size ? `?${parts}` : ""}`;
  }

  function familyList(all) {
    const whole = h("li", {}, h("a", { href: address({ family: undefined }), "aria-current": family ? null : "true" }, h("b", {}, "All"), h("span", { class: "soft" }, "every family")));
    return h("ul", {}, whole, all.map((one) => h("li", {}, h("a", { href: address({ family: one.name }), "aria-current": one.name === family ? "true" : null },
      h("b", {}, heard(one.name)), h("span", { class: "soft" }, plural(one.rules, "rule")), h("span", { class: one.gainful ? "good" : "soft" }, one.gainful ? `${count(one.gainful)} save ${percent(one.median_saved)} (median)` : "no gain alone")))));
  }

  function tabs(current) {
    return h("nav", { class: "tabs", "aria-label": "Filter by status" }, STATUSES.map(([name, words]) =>
      h("a", { href: address({ status: name === "verified" ? undefined : name, cursor: undefined }), "aria-current": name === current ? "true" : null }, words)));
  }

  function search() {
    clearTimeout(timer);
    const wanted = address({});
    if (wanted === location.pathname + location.search) return;
    history.replaceState({}, "", wanted);
    filter.nextElementSibling.replaceWith(tabs(status));
    list(new URLSearchParams(location.search));
  }

  async function list(asked) {
    const sent = new URLSearchParams({ limit: "40" });
    for (const name of ["q", "operator", "family", "cursor"]) if (asked.get(name)) sent.set(name, asked.get(name));
    if (status) sent.set("status", status);
    const now = location.search;
    await into(place, "Loading rules", async () => {
      const page = await json(`/v1/substitutions?${sent}`, { signal });
      if (location.search !== now) throw new DOMException("another search came", "AbortError");
      show(known, [...new Set(page.items.flatMap((rule) => rule.operators_source))].sort().map((name) => h("option", { value: name })));
      if (!page.items.length) return empty("search", "No rule fits", "Try fewer words, another operator or another status.");
      return [ruleTable(page.items), pager(asked, page.next)];
    }, signal);
  }

  function pager(asked, next) {
    if (!asked.get("cursor") && !next) return null;
    return h("nav", { class: "pager", "aria-label": "Pages" },
      asked.get("cursor") ? h("a", { class: "button plain", href: address({}) }, "First page") : h("span"),
      next ? h("a", { class: "button plain", href: address({ cursor: next }), rel: "next" }, "Next") : h("span"));
  }
}

function ruleTable(rules) {
  return h("table", { class: "rules" }, h("caption", { class: "hidden" }, "Rules"),
    h("thead", {}, h("tr", {}, ["Rule", "Saves", "Proof", "Status"].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, rules.map((rule) => h("tr", {},
      h("th", { scope: "row" }, h("a", { class: "equation", href: `/library/${rule.id}` }, h("code", {}, abbreviated(rule.equation)))),
      h("td", { class: "rule-saves" }, rule.saves ? h("span", { class: "good", title: "Share of the predicted cost, at typical sizes" }, percent(rule.saves)) : ""),
      h("td", { class: "rule-note soft" }, note(rule)), h("td", { class: "rule-status" }, chip(rule.status))))));
}

function note({ evidence, proof }) {
  if (evidence.length) return "changed the outputs of a model";
  if (!proof) return "";
  if (proof.counterexample) return "has a counterexample";
  return proof.axioms_used.length ? plural(proof.axioms_used.length, "axiom") : abbreviated(proof.reason);
}

const heard = (name) => words(name).replace(/^./, (letter) => letter.toUpperCase());
