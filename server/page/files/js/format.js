// Numbers, times and sizes as people read them.

const STEPS = {
  us: [[1e6, "s"], [1e3, "ms"], [1, "µs"]],
  flops: [[1e12, "TFLOP"], [1e9, "GFLOP"], [1e6, "MFLOP"], [1e3, "kFLOP"], [1, "FLOP"]],
  bytes: [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
};

/** What to divide by, and the name of the unit then. */
export function scaleOf(value, unit) {
  const steps = STEPS[unit] ?? [[1, unit]];
  return steps.find(([scale]) => value >= scale) ?? steps.at(-1);
}

/** Three digits that count. */
export function digits(value) {
  if (value === 0) return "0";
  if (value >= 100) return Math.round(value).toLocaleString("en");
  const places = value >= 10 ? 1 : value >= 0.1 ? 2 : Math.min(6, 2 - Math.floor(Math.log10(value)));
  return value.toFixed(places);
}

/** A cost in the unit of an objective. */
export function amount(value, unit) {
  if (!Number.isFinite(value)) return "–";
  const [scale, name] = scaleOf(Math.abs(value), unit);
  const isWhole = scale === 1 && unit !== "us" && Number.isInteger(value);
  const text = isWhole ? Math.abs(value).toLocaleString("en") : digits(Math.abs(value) / scale);
  return `${value < 0 && text !== "0" ? "−" : ""}${text}\u00a0${name}`;
}

/** A gain or loss with its sign. */
export function signed(value, unit) {
  const text = amount(value, unit);
  return value > 0 && !text.startsWith("0\u00a0") ? `+${text}` : text;
}

/** Two costs. */
export const change = (before, after, unit) => `${amount(before, unit)} → ${amount(after, unit)}`;

/** A share as a percentage. */
export const percent = (share) => `${(100 * share).toFixed(Math.abs(share) >= 0.1 ? 0 : 1)}\u00a0%`;

/** How much less, as a share of what was. */
export const saved = (before, after) => (before > 0 && Number.isFinite(after) ? (before - after) / before : 0);

/** A count. */
export const count = (value) => Number(value ?? 0).toLocaleString("en");

/** A count with its noun. */
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** Bytes. */
export const bytes = (value) => amount(value, "bytes");

/** Seconds as a clock would say them. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 10) return `${seconds.toFixed(1)}\u00a0s`;
  if (seconds < 60) return `${Math.round(seconds)}\u00a0s`;
  const whole = Math.round(seconds), hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
  const parts = hours ? [[hours, "h"], [minutes, "min"]] : [[minutes, "min"], [whole % 60, "s"]];
  return parts.filter(([value]) => value).map(([value, unit]) => `${value}\u00a0${unit}`).join(" ");
}

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60]];

/** How long ago. */
export function ago(moment) {
  const seconds = (new Date(moment) - Date.now()) / 1000;
  const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? [null, 1];
  return unit ? RELATIVE.format(Math.round(seconds / size), unit) : "just now";
}

/** The whole date and time. */
export const moment = (text) => new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** An identifier as words. */
export const words = (name) => String(name).replaceAll("_", " ");

const NUMBER = "-?\\d+(?:/\\d+)?", ROW = `\\(${NUMBER}(?:, ${NUMBER})*,?\\)`, MATRIX = `(\\(${ROW}(?:, ${ROW})*,?\\))`;
const [NUMBERS, ROWS, ALGORITHMS] = [NUMBER, ROW, `\\(${MATRIX}, ${MATRIX}, ${MATRIX}\\)`].map((pattern) => new RegExp(pattern, "g"));

/** The text with names in place of the matrices of each bilinear algorithm, as superopt.equations.abbreviated has it. */
export function abbreviated(text) {
  return text.replace(ALGORITHMS, (algorithm, ...found) => {
    const lengths = found.slice(0, 3).map((matrix) => matrix.match(ROWS).map((row) => row.match(NUMBERS).length));
    const [[reads, ...rest], [taps], [outputs]] = lengths, count = rest.length + 1;
    if (!lengths.every((rows) => rows.length === count && rows.every((length) => length === rows[0]))) return algorithm;
    if (reads === outputs + taps - 1) return `F(${outputs},${taps})`;
    const rows = Math.floor(Math.sqrt(Math.floor((reads * outputs) / taps))) || 1;
    const [inner, columns] = [reads, outputs].map((size) => Math.floor(size / rows));
    const fits = rows * inner === reads && inner * columns === taps && rows * columns === outputs;
    return fits ? `${rows}x${inner}x${columns}:${count}` : algorithm;
  });
}

/** A value of an option. */
export function written(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (Array.isArray(value)) return value.length ? value.map(written).join(", ") : "–";
  if (typeof value === "object") {
    const pairs = Object.entries(value);
    return pairs.length ? pairs.map(([key, held]) => `${key}=${written(held)}`).join(", ") : "–";
  }
  return typeof value === "number" ? String(value) : words(value);
}
