// Plots as SVG in the colours of the page.
import { s } from "./dom.js";
import { amount, digits, duration, scaleOf } from "./format.js";

const HEIGHT = 260, RIGHT = 16, TOP = 14, BOTTOM = 32, MOST = 400;
const CHARACTER = 7.2, GAP = 8;

/** The best cost over the seconds, as steps; `points` are [second, cost], `before` is what the original costs, `until` how far it is known. */
export function curve(points, seconds, unit, { before = null, until = Infinity } = {}) {
  const width = Math.min(1130, Math.max(240, innerWidth - (innerWidth < 640 ? 66 : 110)));
  const drawn = thinned(points);
  const end = Math.max(seconds, drawn.at(-1)?.[0] ?? 0, 1);
  const costs = [...drawn.map(([, cost]) => cost), ...(before === null ? [] : [before])];
  let low = Math.min(...costs), high = Math.max(...costs);
  const margin = 0.1 * (high - low) || 0.05 * (high || 1);
  [low, high] = [Math.max(0, low - margin), high + margin];
  const [scale, name] = scaleOf(high, unit);
  const labels = ticks(low / scale, high / scale).map((tick, place, all) => [tick, `${digits(tick)}${place === all.length - 1 ? ` ${name}` : ""}`]);
  const left = Math.ceil(2 * GAP + CHARACTER * Math.max(...labels.map(([, text]) => text.length), 3));
  const x = (second) => left + (second / end) * (width - left - RIGHT);
  const y = (cost) => TOP + ((high - cost) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const floor = HEIGHT - BOTTOM;
  let path = `M${x(drawn[0][0]).toFixed(1)} ${y(drawn[0][1]).toFixed(1)}`;
  for (const [second, cost] of drawn.slice(1)) path += `H${x(second).toFixed(1)}V${y(cost).toFixed(1)}`;
  const last = drawn.at(-1), edge = Math.max(last[0], Math.min(end, until));
  path += `H${x(edge).toFixed(1)}`;
  return s("svg", { class: "plot", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `The best predicted cost went from ${amount(drawn[0][1], unit)} to ${amount(last[1], unit)} in ${duration(end)}.` },
    labels.map(([tick, text]) => [
      s("path", { class: "grid", d: `M${left} ${y(tick * scale).toFixed(1)}H${width - RIGHT}` }),
      s("text", { class: "end", x: left - GAP, y: (y(tick * scale) + 4).toFixed(1) }, text)]),
    ticks(0, end).map((tick) => s("text", { x: Math.min(x(tick), width - 1.4 * RIGHT).toFixed(1), y: floor + 20 }, tick >= 120 ? `${Number((tick / 60).toFixed(2))} min` : `${tick} s`)),
    before === null ? null : s("path", { class: "reference", d: `M${left} ${y(before).toFixed(1)}H${width - RIGHT}` }),
    s("path", { class: "area", d: `${path}V${floor}H${x(drawn[0][0]).toFixed(1)}Z` }),
    s("path", { class: "line", d: path }),
    s("circle", { class: "dot", cx: x(last[0]).toFixed(1), cy: y(last[1]).toFixed(1), r: 4 }));
}

/** Two times beside each other, and the ratio with its interval below. */
export function interval({ ratio, interval: [low, high] }) {
  let start = Math.min(low, 1), end = Math.max(high, 1);
  const margin = 0.15 * (end - start) || 0.05;
  [start, end] = [start - margin, end + margin];
  const x = (value) => (8 + ((value - start) / (end - start)) * 344).toFixed(1);
  return s("svg", { class: "interval", viewBox: "0 0 360 52", role: "img", "aria-label": `Ratio ${ratio.toFixed(3)}, interval ${low.toFixed(3)} to ${high.toFixed(3)}; 1 is no change` },
    s("path", { class: "axis", d: "M8 20H352" }), s("path", { class: "one", d: `M${x(1)} 6V34` }),
    label(x(1), "1× no change"),
    s("path", { class: "span", d: `M${x(low)} 20H${x(high)}` }), s("circle", { class: "dot", cx: x(ratio), cy: 20, r: 6 }),
    Math.abs(x(ratio) - x(1)) > 100 ? label(x(ratio), `${low.toFixed(2)} – ${high.toFixed(2)}×`) : null);
}

/** A label below the interval, all of it inside. */
function label(at, text) {
  const half = 3.2 * text.length;
  return s("text", { x: Math.min(Math.max(at, half), 360 - half).toFixed(1), y: 48 }, text);
}

/** Round numbers between the two. */
export function ticks(low, high, wanted = 5) {
  const rough = (high - low) / wanted;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= 0.8 * rough) ?? 10 * power;
  const found = [];
  for (let tick = Math.ceil(low / step); tick * step <= high; tick += 1) found.push(Number((tick * step).toPrecision(6)));
  return found;
}

function thinned(points) {
  if (points.length <= MOST) return points;
  const every = points.length / (MOST - 1);
  return [...Array.from({ length: MOST - 1 }, (_, place) => points[Math.floor(place * every)]), points.at(-1)];
}
