// Elements made in one expression.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `properties` are attributes, except `class`, `on` (listeners), `data` and `html` properties. */
export function h(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** An SVG element. */
export function s(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "style") for (const [key, held] of Object.entries(value)) element.style.setProperty(key, held);
    else if (name === "value" && "value" in element) element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** What the element shows from now on. */
export function show(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

let numbered = 0;

/** An id that no other element has. */
export function fresh(prefix) {
  numbered += 1;
  return `${prefix}-${numbered}`;
}

const announcer = () => document.getElementById("announcer");

/** Says something to people who hear the page. */
export function announce(text) {
  if (announcer().textContent !== text) announcer().textContent = text;
}
