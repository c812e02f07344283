// The HTTP API, as the service's OpenAPI document describes it.
import { h, show } from "../dom.js";
import { words } from "../format.js";
import { json } from "../api.js";
import { choices } from "../choices.js";
import { heading, loading, prose, table } from "../parts.js";
import { callOf } from "./docs-curl.js";
import { nameOf, schemaTable, typeOf } from "./docs-schema.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const FAILED = 400;

/** Every operation by its tag, then the schemas. */
export async function view({ root, signal, title }) {
  title("HTTP API");
  show(root, h("h1", { class: "hidden" }, "HTTP API"), loading("Loading the API", 6));
  const api = await json("/openapi.json", { signal });
  const version = (await choices().catch(() => ({}))).version;
  const tags = Map.groupBy(operationsOf(api), (one) => one.tags?.[0] ?? "others");
  const schemas = Object.entries(api.components.schemas);
  const needsKey = !api.security?.some((one) => Object.keys(one).length === 0);
  show(root,
    heading("HTTP API", { lead: prose(api.info.description), aside: h("a", { class: "button plain", href: "/openapi.json" }, "OpenAPI document") }),
    h("nav", { class: "contents", "aria-label": "Parts of the API" }, h("ul", {}, [...tags.keys(), "schemas"].map((name) => h("li", {}, h("a", { href: `#${name}` }, heard(name)))))),
    h("section", { class: "panel part api-key" }, h("h2", {}, "Authentication"), h("p", { class: "lead" }, needsKey
      ? ["This service requires an API key: send it as ", h("code", {}, "Authorization: Bearer KEY"), ". ", h("code", {}, "superopt keys create NAME"), " makes one."]
      : ["No API key exists: this machine is served without one, and no other machine is. ", h("code", {}, "superopt keys create NAME"), " makes one."]), version && h("p", { class: "soft fine" }, `superopt ${version}`)),
    [...tags].map(([name, operations]) => h("section", { class: "panel part", id: name, "aria-labelledby": `${name}-title` },
      h("h2", { id: `${name}-title` }, heard(name)), operations.map((one) => operation(one, api, needsKey)))),
    h("section", { class: "panel part", id: "schemas", "aria-labelledby": "schemas-title" }, h("h2", { id: "schemas-title" }, "Schemas"),
      schemas.map(([name, schema]) => h("details", { class: "operation", id: `schema-${name}` }, h("summary", {}, h("code", {}, name)), schema.description && h("p", { class: "lead" }, prose(schema.description)), schemaTable(name, schema)))));
  reveal();
  addEventListener("hashchange", reveal, { signal });
}

function operationsOf(api) {
  return Object.entries(api.paths).flatMap(([path, held]) => METHODS.filter((method) => held[method]).map((method) => ({ path, method, ...held[method] })));
}

function operation(one, api, needsKey) {
  const { path, method, description = "", parameters = [], requestBody, responses } = one;
  const [first, ...rest] = description.split("\n\n");
  return h("details", { class: "operation", id: one.operationId },
    h("summary", {}, h("span", { class: `method ${method}` }, method.toUpperCase()), h("code", { class: "path" }, path.split(/(?=\/)/).map((part) => [h("wbr"), part])), h("span", { class: "what" }, prose(first))),
    h("div", { class: "inside" },
      rest.map((text) => h("p", { class: "lead" }, prose(text))),
      parameters.length > 0 && [h("h3", {}, "Parameters"), parameterTable(`Parameters of ${method} ${path}`, parameters)],
      requestBody && Object.entries(requestBody.content).map(([kind, { schema }]) => [h("h3", {}, "Body, ", h("code", {}, kind)), schemaTable(`Body of ${method} ${path}`, resolved(schema, api), "required")]),
      h("h3", {}, "Responses"), responseTable(`Responses of ${method} ${path}`, responses),
      h("h3", {}, "With curl"), h("pre", { class: "code-block", tabindex: "0" }, callOf(one, api, needsKey && one.security?.length !== 0))));
}

function parameterTable(caption, parameters) {
  return table(caption, [["Name", ""], ["In", ""], ["Value", ""], ["Meaning", ""]], h("tbody", {}, parameters.map((one) => h("tr", {},
    h("th", { scope: "row" }, h("code", {}, one.name), one.required && one.in !== "path" ? h("small", { class: "block" }, "required") : null),
    h("td", { data: { label: "In" } }, one.in), h("td", { data: { label: "Value" } }, typeOf(one.schema)), h("td", { class: "full" }, prose(one.description ?? ""))))), "stack");
}

function responseTable(caption, responses) {
  return table(caption, [["Status", ""], ["Content", ""], ["Meaning", ""]], h("tbody", {}, Object.entries(responses).map(([status, one]) => h("tr", { class: status >= FAILED ? "soft" : "" },
    h("th", { scope: "row" }, h("code", {}, status)),
    h("td", { data: { label: "Content" } }, status >= FAILED ? "problem" : contentOf(one)),
    h("td", { class: "full" }, prose(one.description), headersOf(one.headers))))), "stack");
}

function contentOf({ content = {} }) {
  const kinds = Object.entries(content);
  if (!kinds.length) return "none";
  return kinds.map(([kind, { schema }], place) => [place > 0 && ", ", nameOf(schema) ? typeOf(schema) : h("code", {}, kind)]);
}

const headersOf = (headers = {}) => Object.entries(headers).map(([name, one]) => h("small", { class: "block" }, h("code", {}, name), ": ", prose(one.description ?? "")));

const resolved = (schema, api) => (nameOf(schema) ? api.components.schemas[nameOf(schema)] : schema);
const heard = (name) => words(name).replace(/^./, (letter) => letter.toUpperCase());

/** Opens what the address names. */
function reveal() {
  const named = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!named) return;
  if (named.tagName === "DETAILS") named.open = true;
  named.scrollIntoView({ block: "start" });
}
