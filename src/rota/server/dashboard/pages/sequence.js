// A transaction's timeline as a sequence diagram, from the user to the ledger and back.
//
// A node sees the milestones of its own roles. What it tells is drawn between the life lines of those who took part; what
// it cannot know is not drawn.

import { clock, duration, svg, setAttribute } from "./dom.js";
import { colourOf } from "./nodes.js";

const LANE_WIDTH = 150;
const HEAD = 44;
const STEP = 40;
const LEFT = 96;
const USER = "user";
const LEDGER = "ledger";

// `ours` is this node. Each arrow: from, to, text, when.
export function arrowsOf(steps, ours, role) {
  const isSender = role === "sender" || steps.some((step) => step.milestone === "accepted");
  const arrows = [];
  for (const { milestone, by, atMs, detail } of steps) {
    const other = by ?? ours;
    switch (milestone) {
      case "accepted":
        arrows.push({ from: USER, to: ours, text: "accepted", atMs });
        break;
      case "delegated":
        arrows.push(isSender ? { from: ours, to: other, text: "delegated", atMs } : { from: other, to: ours, text: "delegated", atMs });
        break;
      case "assembled":
        arrows.push({ from: other, to: other, text: "assembled", atMs });
        break;
      case "endorsed":
        arrows.push({ from: other, to: other, text: "endorsed", atMs });
        break;
      case "permitted":
        arrows.push(isSender ? { from: ours, to: other, text: "permitted", atMs } : { from: other, to: ours, text: "permitted", atMs });
        break;
      case "dispatched":
        arrows.push({ from: other, to: LEDGER, text: detail ? `dispatched, ${detail.split(" of ")[0]}` : "dispatched", atMs });
        break;
      case "confirmed":
        arrows.push({ from: LEDGER, to: ours, text: detail ? `confirmed, ${detail}` : "confirmed", atMs });
        break;
      case "skipped":
        arrows.push({ from: LEDGER, to: ours, text: "skipped", atMs, isBad: true });
        break;
      case "reported":
        arrows.push({ from: ours, to: USER, text: detail || "reported", atMs, isBad: detail.startsWith("reverted") });
        break;
      default:
        arrows.push({ from: other, to: other, text: milestone, atMs });
    }
  }
  return arrows;
}

export class SequenceDiagram {
  constructor() {
    this.element = svg("svg", { class: "sequence", role: "img" });
    this.shown = "";
  }

  draw(arrows) {
    const key = JSON.stringify(arrows);
    if (key === this.shown) return;
    this.shown = key;
    const lanes = lanesOf(arrows);
    const x = new Map(lanes.map((lane, place) => [lane, LEFT + LANE_WIDTH / 2 + place * LANE_WIDTH]));
    const width = LEFT + lanes.length * LANE_WIDTH;
    const height = HEAD + arrows.length * STEP + 24;
    setAttribute(this.element, "viewBox", `0 0 ${width} ${height}`);
    setAttribute(this.element, "width", width);
    setAttribute(this.element, "height", height);
    setAttribute(this.element, "aria-label", arrows.map(({ from, to, text, atMs }) => `${clock(atMs)} ${from}${from === to ? "" : ` to ${to}`}: ${text}`).join("; "));
    const lines = lanes.map((lane) => lifeLine(lane, x.get(lane), height));
    const beganMs = arrows[0]?.atMs ?? 0;
    this.element.replaceChildren(...lines, ...arrows.flatMap((arrow, place) => arrowOf(arrow, x, HEAD + (place + 0.7) * STEP, beganMs, place)));
  }
}

// The user first, the ledger last, nodes between them in the order in which they appear.
function lanesOf(arrows) {
  const nodes = new Set(arrows.flatMap(({ from, to }) => [from, to]).filter((lane) => lane !== USER && lane !== LEDGER));
  const has = (lane) => arrows.some(({ from, to }) => from === lane || to === lane);
  return [...(has(USER) ? [USER] : []), ...nodes, ...(has(LEDGER) ? [LEDGER] : [])];
}

function lifeLine(lane, x, height) {
  const isNode = lane !== USER && lane !== LEDGER;
  return svg(
    "g",
    { class: "lane", "data-node": isNode ? colourOf(lane) : null },
    svg("line", { x1: x, x2: x, y1: HEAD - 8, y2: height }),
    svg("rect", { x: x - 58, y: 6, width: 116, height: 28, rx: 14 }),
    svg("text", { x, y: 25, "text-anchor": "middle" }, lane),
  );
}

function arrowOf({ from, to, text, atMs, isBad }, x, y, beganMs, place) {
  const [x1, x2] = [x.get(from), x.get(to)];
  const since = place === 0 ? clock(atMs) : `+${duration(atMs - beganMs)}`;
  const when = svg("text", { class: "when", x: LEFT - 12, y: y + 4, "text-anchor": "end" }, since);
  const attributes = { class: isBad ? "step bad" : "step" };
  if (from === to) {
    return [when, svg("g", attributes, svg("circle", { cx: x1, cy: y, r: 4.5 }), svg("text", { x: x1 + 10, y: y + 4 }, text))];
  }
  const way = Math.sign(x2 - x1);
  const head = svg("path", { class: "head", d: `M${x2} ${y} l${-9 * way} -5 v10 z` });
  const line = svg("line", { x1, x2: x2 - 6 * way, y1: y, y2: y });
  return [when, svg("g", attributes, line, head, svg("text", { x: (x1 + x2) / 2, y: y - 7, "text-anchor": "middle" }, text))];
}
