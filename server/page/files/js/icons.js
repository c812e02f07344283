// Small line drawings, 20 by 20; never the only carrier of a meaning.
import { s } from "./dom.js";

const PATHS = {
  moon: "M16 11.5A6.5 6.5 0 0 1 8.5 4a6.5 6.5 0 1 0 7.5 7.5Z",
  sun: "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7ZM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M4.3 15.7l1.1-1.1M14.6 5.4l1.1-1.1",
  system: "M3 4.5h14v9H3zM7.5 17h5M10 13.5V17",
  key: "M12.5 3.5a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM9.6 10.4 3.5 16.5M5 15l1.8 1.8M7.2 12.8 9 14.6",
  upload: "M10 13V4M6.5 7.5 10 4l3.5 3.5M4 13v2.5h12V13",
  download: "M10 4v9M6.5 9.5 10 13l3.5-3.5M4 13.5V16h12v-2.5",
  close: "M5.5 5.5l9 9M14.5 5.5l-9 9",
  check: "M4.5 10.5l3.5 3.5 7.5-8",
  alert: "M10 6.5v4.5M10 13.6v.1M10 3.2 17.2 16H2.8Z",
  clock: "M10 3.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM10 6.5V10l2.5 1.8",
  stop: "M6 6h8v8H6z",
  spin: "M10 3.5a6.5 6.5 0 1 1-6.5 6.5",
  file: "M5.5 3h6l3.5 3.5V17h-9.5zM11.5 3v3.5h3.5",
  server: "M3.5 4h13v4.5h-13zM3.5 11.5h13V16h-13zM6.3 6.250v.1M6.3 13.750v.1",
  search: "M9 4a5 5 0 1 0 0 10A5 5 0 0 0 9 4ZM12.7 12.7 16.5 16.5",
  left: "M12.5 4.5 7 10l5.5 5.5",
  right: "M7.5 4.5 13 10l-5.5 5.5",
  graph: "M4 3.5h4.5V7H4zM11.5 13H16v3.5h-4.5zM6.2 7v7.7h5.3",
  question: "M7.5 7.7a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.8M10 14.3v.1",
};

/** The icon of that name; hidden from people who hear the page. */
export function icon(name, size = 18) {
  return s("svg", { class: `icon icon-${name}`, viewBox: "0 0 20 20", width: size, height: size, "aria-hidden": "true" },
    s("path", { d: PATHS[name] }));
}
