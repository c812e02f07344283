// Requests to the service; a failure is a Problem, whatever its cause.
import * as connection from "./connection.js";
import { askForKey, authorization, key } from "./keys.js";
import { h } from "./dom.js";

/** A failure, as the service's problem document says it or as the connection gave it. */
export class Problem extends Error {
  constructor({ title, detail = "", status = 0, type = "", errors = [] }) {
    super(detail ? `${title}: ${detail}` : title);
    Object.assign(this, { title, detail, status, type, errors });
  }
}

const LOST = { title: "The service cannot be reached", detail: "The connection was lost; retrying when it is back.", type: "offline" };

/** A response that is fine; asks for a key when one is needed. */
export async function call(path, options = {}) {
  for (;;) {
    let response;
    try {
      response = await fetch(path, { ...options, headers: { ...authorization(), ...options.headers } });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      connection.lost();
      throw new Problem(LOST);
    }
    connection.reached();
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (response.status !== 401 || !(await askForKey(whyKey()))) throw problem;
  }
}

/** A JSON document. */
export const json = async (path, options) => (await call(path, options)).json();

/** Sends a form and says how much of it was sent; the JSON answer. */
export async function upload(path, form, headers, onSent, signal) {
  for (;;) {
    const request = await sent(path, form, { ...authorization(), ...headers }, onSent, signal);
    if (request.status >= 200 && request.status < 300) return JSON.parse(request.responseText);
    const problem = new Problem(parsed(request.responseText) ?? { title: request.statusText || "The upload failed", status: request.status });
    if (request.status !== 401 || !(await askForKey(whyKey()))) throw problem;
  }
}

function sent(path, form, headers, onSent, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => { if (event.lengthComputable) onSent(event.loaded, event.total); });
    request.addEventListener("load", () => { connection.reached(); resolve(request); });
    request.addEventListener("error", () => { connection.lost(); reject(new Problem({ ...LOST, detail: "The upload did not arrive. Send it again; duplicates are detected." })); });
    request.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
    signal?.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

const whyKey = () => (key() ? "The service does not know this key, or it was revoked." : "This service requires an API key.");

function parsed(text) {
  try { return JSON.parse(text); } catch { return null; }
}

async function problemOf(response) {
  const document = parsed(await response.text());
  return new Problem({ title: response.statusText || `Status ${response.status}`, status: response.status, ...document });
}

/** Saves what an address gives as a file. Without a key the browser streams it to disk itself. */
export async function save(path, name) {
  if (!key()) return click(path, name);
  const response = await call(path);
  const given = /filename\*=utf-8''([^;]+)/i.exec(response.headers.get("content-disposition") ?? "") ?? /filename="([^"]+)"/.exec(response.headers.get("content-disposition") ?? "");
  const address = URL.createObjectURL(await response.blob());
  click(address, given ? decodeURIComponent(given[1]) : name);
  setTimeout(() => URL.revokeObjectURL(address), 10000);
  return undefined;
}

function click(address, name) {
  const link = h("a", { href: address, download: name ?? "" });
  document.body.append(link);
  link.click();
  link.remove();
}
