// A list of any length of which only what is seen has elements. Rows have one height, which the style sheet knows too.

import { h, setAttribute } from "./dom.js";

const SPARE_ROWS = 6;

export class VirtualList {
  // `make` gives a row, `refresh(row, item)` fills it. Arrow keys go from row to row, Enter follows its link.
  constructor({ label, rowHeight, make, refresh }) {
    this.rowHeight = rowHeight;
    this.make = make;
    this.refresh = refresh;
    this.items = [];
    this.rows = [];
    this.filler = h("div", { class: "filler" });
    this.shown = h("div", { class: "shown" });
    this.element = h("div", { class: "virtual", role: "list", "aria-label": label, tabindex: "0" }, this.filler, this.shown);
    this.element.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.isScheduled = false;
    new ResizeObserver(() => this.schedule()).observe(this.element);
  }

  set(items) {
    this.items = items;
    this.schedule();
  }

  schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.draw();
    });
  }

  draw() {
    const { items, rowHeight } = this;
    const first = Math.max(0, Math.floor(this.element.scrollTop / rowHeight) - SPARE_ROWS);
    const wanted = Math.min(items.length - first, Math.ceil((this.element.clientHeight || 400) / rowHeight) + 2 * SPARE_ROWS);
    const height = `${items.length * rowHeight}px`;
    if (this.filler.style.height !== height) this.filler.style.height = height;
    const offset = `translateY(${first * rowHeight}px)`;
    if (this.shown.style.transform !== offset) this.shown.style.transform = offset;
    while (this.rows.length < wanted) {
      const row = this.make();
      row.setAttribute("role", "listitem");
      this.rows.push(row);
      this.shown.append(row);
    }
    this.rows.forEach((row, place) => {
      const item = place < wanted ? items[first + place] : undefined;
      if (row.hidden !== (item === undefined)) row.hidden = item === undefined;
      if (item === undefined) return;
      this.refresh(row, item);
      setAttribute(row, "aria-setsize", items.length);
      setAttribute(row, "aria-posinset", first + place + 1);
    });
  }

  onKey(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const rows = this.rows.filter((row) => !row.hidden);
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[event.key === "ArrowDown" ? at + 1 : Math.max(at - 1, 0)];
    const target = next?.matches("a") ? next : next?.querySelector("a");
    if (!target) return;
    event.preventDefault();
    target.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }
}
