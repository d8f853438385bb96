// The ring of a contract (protocol §2): where the members stand, where the point of the range lies, who is nearest.
//
// Members stand at so many places that the nearest are a hair's breadth from the point. So there are two pictures: the
// whole ring, and below it what lies around the point, stretched into a line.

import { h, keyed, number, setAttribute, setText, svg } from "./dom.js";
import { chip, colourOf } from "./nodes.js";

const SIZE = 260;
const MIDDLE = SIZE / 2;
const RADIUS = 100;
const LENS_WIDTH = 320;
const LENS_HEIGHT = 96;
const LENS_MARGIN = 24;

export class Ring {
  constructor() {
    this.places = svg("g", { class: "places" });
    this.marker = svg("g", { class: "point" });
    this.leader = svg("text", { class: "leader", x: MIDDLE, y: MIDDLE - 2, "text-anchor": "middle" });
    this.range = svg("text", { class: "range", x: MIDDLE, y: MIDDLE + 20, "text-anchor": "middle" });
    this.picture = svg(
      "svg",
      { class: "ring", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img" },
      svg("circle", { class: "track", cx: MIDDLE, cy: MIDDLE, r: RADIUS }),
      this.places,
      this.marker,
      this.leader,
      this.range,
    );
    this.lens = svg("svg", { class: "lens", viewBox: `0 0 ${LENS_WIDTH} ${LENS_HEIGHT}`, role: "img" });
    this.ranking = h("ol", { class: "ranking", id: "ranking" });
    this.next = h("ol", { class: "next-ranges", id: "next-ranges" });
    this.none = h("p", { id: "no-ring" });
    this.pair = h(
      "div",
      { class: "ring-pair" },
      h("figure", {}, this.picture, this.lens, h("figcaption", { class: "soft" }, "Above, the whole ring. Below, around the point: the nearer, the higher the rank.")),
      h("div", {}, h("h3", {}, "Ranking in this range"), this.ranking, h("h3", {}, "Next coordinators"), this.next),
    );
    this.element = h("div", {}, this.none, this.pair);
    this.shown = "";
  }

  // `status` is that of seq_status, `ring` that of seq_ring.
  set(status, ring) {
    const [now, ...next] = ring?.ranges ?? [];
    this.none.hidden = Boolean(now);
    this.pair.hidden = !now;
    if (!now) this.none.replaceChildren(...leadersWithoutRing(status));
    keyed(
      this.ranking,
      status.ranking,
      (node) => node,
      (node) => h("li", {}, chip(node), h("span", { class: "role" })),
      (item, node) => {
        const roles = [node === status.activeCoordinator ? "coordinates" : "", status.silent.includes(node) ? "silent" : ""];
        setText(item.lastElementChild, roles.filter(Boolean).join(", "));
        setAttribute(item, "data-active", node === status.activeCoordinator);
      },
    );
    setText(this.leader, status.activeCoordinator ?? "nobody");
    setAttribute(this.leader, "data-node", colourOf(status.activeCoordinator));
    setText(this.range, `range ${number(status.range)}`);
    keyed(
      this.next,
      next,
      (each) => each.range,
      (each) => h("li", {}, h("span", { class: "soft" }, `from block ${number(each.firstHeight)}`), chip(each.members[0].node)),
    );
    if (!now) return;
    const key = `${ring.contract} ${now.range} ${status.activeCoordinator}`;
    if (key === this.shown) return;
    this.shown = key;
    this.drawRing(ring, now, status);
    this.drawLens(now);
    setAttribute(
      this.picture,
      "aria-label",
      `The ring of ${status.committee.length} members. In range ${now.range} the nearest to the point is ${now.members[0].node}; ${status.activeCoordinator ?? "nobody"} coordinates.`,
    );
  }

  drawRing(ring, now, status) {
    this.places.replaceChildren(
      ...Object.entries(ring.places).flatMap(([node, places]) =>
        places.map((place) => {
          const [x1, y1] = at(place, RADIUS - 7);
          const [x2, y2] = at(place, RADIUS + 7);
          return svg("line", { "data-node": colourOf(node), "data-active": node === status.activeCoordinator, x1, y1, x2, y2 });
        }),
      ),
    );
    const [x, y] = at(now.point, RADIUS + 22);
    const [x1, y1] = at(now.point, RADIUS - 16);
    const [x2, y2] = at(now.point, RADIUS + 14);
    this.marker.replaceChildren(svg("line", { x1, y1, x2, y2 }), svg("circle", { cx: x, cy: y, r: 6, "data-node": colourOf(now.members[0].node) }));
  }

  drawLens(now) {
    const reach = Math.max(...now.members.map((each) => each.distance)) * 1.15 || 1;
    const middle = LENS_WIDTH / 2;
    const y = 44;
    const spots = now.members.map((each, rank) => {
      const x = middle + (signed(each.place - now.point) / reach) * (middle - LENS_MARGIN);
      return svg(
        "g",
        { "data-node": colourOf(each.node) },
        svg("line", { class: "stem", x1: x, y1: y, x2: x, y2: y + 16 }),
        svg("circle", { cx: x, cy: y, r: rank === 0 ? 7 : 5 }),
        svg("text", { x, y: y + 30 + (rank % 2) * 14, "text-anchor": "middle" }, `${rank + 1} ${each.node}`),
      );
    });
    this.lens.replaceChildren(
      svg("line", { class: "track", x1: 8, y1: y, x2: LENS_WIDTH - 8, y2: y }),
      svg("line", { class: "point-line", x1: middle, y1: 12, x2: middle, y2: y + 12 }),
      svg("text", { class: "point-name", x: middle, y: 9, "text-anchor": "middle" }, "point"),
      ...spots,
    );
    setAttribute(this.lens, "aria-label", `By distance from the point: ${now.members.map((each) => each.node).join(", ")}.`);
  }
}

// The contract names its coordinator, or each sender coordinates its own transactions.
function leadersWithoutRing(status) {
  if (status.mode === "sender") return ["No ring: each sender coordinates its own transactions."];
  const leaders = status.ranking.flatMap((node) => [" ", chip(node), status.silent.includes(node) ? " (silent)" : ""]);
  return ["No ring: the contract names its coordinator:", ...leaders];
}

function at(place, radius) {
  const angle = place * 2 * Math.PI - Math.PI / 2;
  return [MIDDLE + radius * Math.cos(angle), MIDDLE + radius * Math.sin(angle)];
}

// The shorter way around.
function signed(way) {
  return way > 0.5 ? way - 1 : way < -0.5 ? way + 1 : way;
}
