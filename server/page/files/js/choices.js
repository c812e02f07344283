// What can be chosen here; asked once.
import { json } from "./api.js";

let asked = null;

/** The choices and limits of the service. */
export function choices() {
  asked ??= json("/page/choices").catch((error) => { asked = null; throw error; });
  return asked;
}
