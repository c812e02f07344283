// Whether the service can be reached; says so in a line under the bar, and tells when it is back.
import { show } from "./dom.js";

const PAUSES = [1, 2, 4, 8, 15];
let tries = 0, timer = null;

const line = () => document.getElementById("connection");

/** A request did not reach the service: says so and keeps asking. */
export function lost() {
  if (timer !== null) return;
  const pause = PAUSES[Math.min(tries, PAUSES.length - 1)];
  show(line(), navigator.onLine ? "The service is not available. Retrying…" : "You are offline. Retrying…");
  timer = setTimeout(ask, pause * 1000);
  tries += 1;
}

/** A request was answered. */
export function reached() {
  clearTimeout(timer);
  timer = null;
  const before = tries;
  tries = 0;
  if (before) {
    show(line());
    dispatchEvent(new CustomEvent("superopt-back"));
  }
}

async function ask() {
  timer = null;
  try {
    const response = await fetch("/livez", { cache: "no-store" });
    if (!response.ok) throw new TypeError("not live");
    reached();
  } catch { lost(); }
}

addEventListener("online", () => { if (tries) { clearTimeout(timer); ask(); } });
addEventListener("offline", lost);
