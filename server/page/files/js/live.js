// Server-sent events of an optimization, read with fetch (which can carry a key) and resumed where they broke off.
import { call } from "./api.js";

const PAUSES = [500, 1000, 2000, 5000, 10000];

/**
 * Calls `onEvent(kind, content)` for everything recorded and everything that happens, until `ended()`.
 * `onBroken(seconds)` says that the stream broke and when it is tried again, `onResumed()` that it is back.
 */
export async function follow(path, { onEvent, onBroken, onResumed, ended, signal }) {
  let last = "0", tries = 0;
  while (!signal.aborted && !ended()) {
    try {
      const response = await call(path, { headers: { "Last-Event-ID": last }, signal });
      if (tries) onResumed();
      tries = 0;
      for await (const event of events(response.body)) {
        if (event.id) last = event.id;
        if (event.data) await onEvent(event.event ?? "message", JSON.parse(event.data));
      }
      if (ended()) return;
      await onEvent("ended", {});
      if (!ended()) await pause(PAUSES[1], signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error.status >= 400 && error.status < 500) throw error;
      const wait = PAUSES[Math.min(tries, PAUSES.length - 1)];
      tries += 1;
      onBroken(wait / 1000);
      await pause(wait, signal);
    }
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      text += part.value;
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) yield fields(block);
    }
  } finally { reader.cancel().catch(() => {}); }
}

function fields(block) {
  const found = {};
  for (const line of block.split("\n")) {
    const [name, value] = line.split(/: ?(.*)/s);
    if (name) found[name] = found[name] ? `${found[name]}\n${value}` : value;
  }
  return found;
}

const pause = (milliseconds, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, milliseconds);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  addEventListener("superopt-back", () => { clearTimeout(timer); resolve(); }, { once: true });
});
