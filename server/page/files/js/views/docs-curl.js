// An operation as a call of curl that can be copied.
import { nameOf } from "./docs-schema.js";

const PLACES = { identity: "ID", slug: "SLUG" };

/** The command. */
export function callOf({ path, method, requestBody, responses }, api, withKey) {
  const address = location.origin + path.replace(/\{(\w+)\}/g, (_, name) => PLACES[name] ?? name.toUpperCase());
  const words = ["curl"];
  if (method === "delete") words.push("-X DELETE");
  if (responses["200"]?.content?.["text/event-stream"]) words.push("-N");
  if (withKey) words.push('-H "Authorization: Bearer $SUPEROPT_API_KEY"');
  for (const [kind, { schema }] of Object.entries(requestBody?.content ?? {})) words.push(...bodyOf(kind, nameOf(schema) ? api.components.schemas[nameOf(schema)] : schema));
  if (responses["206"]) words.push("-O -J");
  return [...words, quoted(address)].join(" \\\n  ").replace("curl \\\n  ", "curl ");
}

function bodyOf(kind, schema) {
  if (kind === "multipart/form-data") return ["-F model=@net.onnx", "-F 'options={\"budget\": 30}'"];
  const example = Object.fromEntries(Object.entries(schema.properties).map(([name, one]) => [name, one.examples?.[0] ?? ""]));
  return [`-H 'Content-Type: ${kind}'`, `-d '${JSON.stringify(example)}'`];
}

const quoted = (text) => (/^[\w:/.-]+$/.test(text) ? text : `'${text}'`);
