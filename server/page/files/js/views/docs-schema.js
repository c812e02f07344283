// JSON schemas as words and tables.
import { h } from "../dom.js";
import { table } from "../parts.js";

const PREFIX = "#/components/schemas/";

/** The name of the schema that is referred to, if one is. */
export const nameOf = (schema) => (schema?.$ref?.startsWith(PREFIX) ? schema.$ref.slice(PREFIX.length) : null);

/** What a value may be, in words; schemas with names are links. */
export function typeOf(schema) {
  const name = nameOf(schema);
  if (name) return h("a", { href: `#schema-${name}` }, name);
  if (schema?.anyOf) return schema.anyOf.map((one, place) => [place > 0 && " or ", typeOf(one)]);
  if (schema?.enum) return schema.enum.map((one, place) => [place > 0 && ", ", h("code", {}, String(one))]);
  if (schema?.type === "array") return schema.items?.format === "binary" ? "file, repeatable" : ["list of ", typeOf(schema.items ?? {})];
  if (schema?.type === "object" && typeof schema.additionalProperties === "object") return [typeOf(schema.additionalProperties), " by name"];
  const kind = schema?.format === "binary" ? "file" : schema?.format === "date-time" ? "date and time" : (schema?.type ?? "any value");
  const bounds = [[schema?.minimum, "at least"], [schema?.exclusiveMinimum, "above"], [schema?.maximum, "at most"]].filter(([limit]) => limit !== undefined && Math.abs(limit) < 2 ** 53).map(([limit, text]) => `${text} ${limit.toLocaleString("en")}`);
  return [kind, ...bounds].join(", ");
}

/** The properties of an object, or what the value may be; `demanded` says that one cannot be left out. */
export function schemaTable(caption, schema, demanded = "always") {
  const properties = Object.entries(schema.properties ?? {});
  if (!properties.length) return h("p", {}, typeOf(schema));
  const required = new Set(schema.required ?? []);
  return table(caption, [["Name", ""], ["Value", ""], ["Default", ""], ["Meaning", ""]], h("tbody", {}, properties.map(([name, one]) => h("tr", {},
    h("th", { scope: "row" }, h("code", {}, name), required.has(name) && h("small", { class: "block" }, demanded)),
    h("td", { data: { label: "Value" } }, typeOf(one)), h("td", { data: { label: "Default" } }, defaultOf(one)), h("td", { class: "full" }, one.description ?? "")))), "stack");
}

function defaultOf({ default: value }) {
  if (value === undefined || value === null) return "–";
  return h("code", {}, typeof value === "string" ? value : JSON.stringify(value));
}
