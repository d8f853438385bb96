// How nodes are shown: each has a colour, by its place among all that are known, and always its name beside it.

import { h, setAttribute, setText, svg } from "./dom.js";

const COLOURS = 8;
const places = new Map();

// The colour of a node; one that comes later takes the next, so that nobody changes his.
export function colourOf(node) {
  if (!node) return "none";
  if (!places.has(node)) places.set(node, places.size % COLOURS);
  return String(places.get(node));
}

export function learnNodes(nodes) {
  for (const node of nodes) colourOf(node);
}

export function chip(node) {
  const element = h("span", { class: "chip" }, h("span", { class: "swatch", "aria-hidden": "true" }), h("span", {}));
  refreshChip(element, node);
  return element;
}

export function refreshChip(element, node) {
  setAttribute(element, "data-node", colourOf(node));
  setText(element.lastElementChild, node || "nobody");
}

// A line of small bars: how many in each second.
export class Bars {
  constructor(label, count, width = 240, height = 40) {
    this.count = count;
    this.height = height;
    const step = width / count;
    this.bars = Array.from({ length: count }, (_, place) =>
      svg("rect", { x: place * step + 0.5, width: Math.max(step - 1, 1), y: height, height: 0, rx: 0.5 }),
    );
    this.element = svg(
      "svg",
      { class: "bars", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      this.bars,
    );
  }

  set(values, label) {
    const most = Math.max(1, ...values);
    this.bars.forEach((bar, place) => {
      const tall = ((values[place] ?? 0) / most) * this.height;
      setAttribute(bar, "height", tall.toFixed(1));
      setAttribute(bar, "y", (this.height - tall).toFixed(1));
    });
    setAttribute(this.element, "aria-label", label);
  }
}
