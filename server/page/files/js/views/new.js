// Submitting a model: files, options, upload.
import { announce, h, show } from "../dom.js";
import { bytes, count } from "../format.js";
import { icon } from "../icons.js";
import { json, upload } from "../api.js";
import { choices } from "../choices.js";
import { heading, into, notice } from "../parts.js";
import { options } from "./options.js";
import { latestRuns } from "./runs.js";

const KINDS = {
  model: ["file", "Model"],
  data: ["file", "External data"],
  cluster: ["server", "Cluster"],
};

/** The form, and the latest runs beside it. */
export async function view({ root, signal, navigate, title }) {
  title("");
  const files = { model: null, data: [], cluster: null };
  const problem = h("div"), list = h("ul", { class: "files" }), progress = h("div", { class: "sending", hidden: true });
  const button = h("button", { class: "large" }, "Optimise");
  const chosen = await options(signal);
  const form = h("form", { class: "panel submit", novalidate: true, on: { submit: send } },
    dropZone(), list, chosen.element, problem, progress,
    h("div", { class: "actions" }, button, h("p", { class: "soft", id: "promise" }, "You get back an equal model that is measurably better, or the original.")));
  const latest = h("section", { class: "aside", "aria-labelledby": "latest-title" });
  const recent = h("div");
  latest.append(h("div", { class: "aside-head" }, h("h2", { id: "latest-title" }, "Latest runs"), h("a", { href: "/optimizations" }, "All")), recent);
  show(root, heading("Optimise a model", { lead: "Drop an ONNX model. Proved rewrites are applied, the result is measured, and the outputs are compared." }),
    h("div", { class: "two" }, form, latest));
  into(recent, "Loading the latest runs", async () => latestRuns((await json("/v1/optimizations?limit=6", { signal })).items), signal);
  listed();

  function dropZone() {
    const field = h("input", { type: "file", id: "files", multiple: true, "aria-describedby": "files-hint", on: { change: () => { take(field.files); field.value = ""; } } });
    const zone = h("div", { class: "drop", on: {
      dragover: (event) => { event.preventDefault(); zone.classList.add("over"); },
      dragleave: (event) => { if (!zone.contains(event.relatedTarget)) zone.classList.remove("over"); },
      drop: (event) => { event.preventDefault(); zone.classList.remove("over"); take(event.dataTransfer.files); },
    } }, icon("upload", 28),
    h("label", { for: "files" }, h("span", { class: "drop-title" }, "Drop a model, or ", h("span", { class: "link" }, "choose files"))),
    field,
    h("p", { class: "hint", id: "files-hint" }, "One .onnx file, its external data if it has any, and a cluster description (.yaml or .json) for a plan over several devices."));
    return zone;
  }

  function take(given) {
    show(problem);
    for (const file of given) {
      const name = file.name.toLowerCase();
      if (name.endsWith(".onnx")) files.model = file;
      else if (/\.(ya?ml|json)$/.test(name)) files.cluster = file;
      else files.data = [...files.data.filter((other) => other.name !== file.name), file];
    }
    listed();
    announce(files.model ? `Model ${files.model.name}, ${count(files.data.length)} data files${files.cluster ? `, cluster ${files.cluster.name}` : ""}` : "No model yet");
  }

  function listed() {
    const all = [["model", files.model], ...files.data.map((file) => ["data", file]), ["cluster", files.cluster]].filter(([, file]) => file);
    show(list, all.map(([kind, file]) => h("li", {}, icon(KINDS[kind][0]),
      h("span", { class: "file-name", title: file.name }, file.name), h("span", { class: "tag" }, KINDS[kind][1]), h("span", { class: "soft number" }, bytes(file.size)),
      h("button", { type: "button", class: "icon-button", "aria-label": `Remove ${file.name}`, on: { click: () => remove(kind, file) } }, icon("close", 16)))));
    chosen.cluster(files.cluster);
  }

  function remove(kind, file) {
    if (kind === "data") files.data = files.data.filter((other) => other !== file); else files[kind] = null;
    listed();
    root.querySelector("#files").focus();
  }

  async function send(event) {
    event.preventDefault();
    show(problem);
    const wrong = await invalid();
    if (wrong) {
      show(problem, notice(wrong));
      root.querySelector(wrong.field).focus();
      return;
    }
    const body = new FormData();
    body.append("options", new Blob([JSON.stringify(chosen.values())], { type: "application/json" }), "options.json");
    body.append("model", files.model);
    for (const file of files.data) body.append("data", file);
    if (files.cluster) body.append("cluster", files.cluster);
    button.disabled = true;
    sent(0, 1);
    progress.hidden = false;
    try {
      const job = await upload("/v1/optimizations", body, { "Idempotency-Key": token() }, sent, signal);
      await navigate(`/optimizations/${job.id}`);
    } catch (error) {
      if (error.name === "AbortError") return;
      show(problem, notice(error));
      problem.scrollIntoView({ block: "nearest" });
    } finally {
      button.disabled = false;
      progress.hidden = true;
    }
  }

  async function invalid() {
    if (!files.model) return { title: "A model is missing", detail: "Drop an .onnx file above, or choose one.", field: "#files" };
    const wrong = chosen.invalid();
    if (wrong) return wrong;
    const limit = (await choices().catch(() => null))?.max_upload_bytes ?? Infinity;
    const size = [files.model, ...files.data].reduce((sum, file) => sum + file.size, 0);
    if (size > limit) return { title: "The files are too large", detail: `${bytes(size)}; this service takes ${bytes(limit)}.`, field: "#files" };
    return null;
  }

  function sent(loaded, total) {
    const share = total ? loaded / total : 0;
    show(progress, h("progress", { max: "1", value: share, "aria-label": "Upload" }),
      h("span", { class: "soft" }, share < 1 ? `Sending ${bytes(loaded)} of ${bytes(total)}` : "Uploaded; the service is checking it"));
  }
}

/** A name for this submission: sent again, it makes no second run. */
function token() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
