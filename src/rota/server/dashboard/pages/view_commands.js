// Commands: how many, and the completions of an application as they come.

import { clock, h, keyed, msOf, number, section, setAttribute, setText, short } from "./dom.js";

const KEPT_MAX = 500;
const PAGE = 100;
const FIGURES = [
  ["commandsInFlight", "in flight"],
  ["commandsAccepted", "happened"],
  ["commandsRejected", "did not happen"],
  ["commandsDuplicate", "duplicates"],
  ["completionsEnd", "latest offset"],
];

export class CommandsView {
  constructor(app) {
    this.app = app;
    this.completions = [];
    this.offset = 0;
    this.wanted = null;
    this.figures = h("ol", { class: "flow", id: "command-figures" });
    this.application = h("input", { id: "application", type: "text", spellcheck: "false", required: true });
    this.parties = h("input", { id: "parties", type: "text", spellcheck: "false", required: true, placeholder: "alice, bob@node2" });
    this.flaw = h("p", { class: "flaw", role: "alert", id: "commands-flaw" });
    this.rows = h("tbody", { id: "completions" });
    this.count = h("span", { class: "count" });
    const form = h(
      "form",
      { class: "finder wrap" },
      h("label", {}, "Application", this.application),
      h("label", {}, "Parties", this.parties),
      h("button", { type: "submit" }, "Follow"),
      this.count,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.follow();
    });
    const head = ["offset", "at", "command", "parties", "outcome", "transaction"].map((text) => h("th", { scope: "col" }, text));
    this.element = h(
      "div",
      { class: "view", id: "view-commands" },
      h("h1", {}, "Commands"),
      h("p", { class: "lead-in" }, "A command happens exactly once. Each submission ends in one completion."),
      section("This node, since it began", this.figures),
      section("Completions", form, this.flaw, h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Completions, the latest first" }, h("table", {}, h("thead", {}, h("tr", {}, head)), this.rows))),
    );
  }

  enter() {
    this.app.refreshStatus();
  }

  tick() {
    this.app.refreshStatus();
    this.more();
  }

  follow() {
    const parties = this.parties.value.split(",").map((each) => each.trim()).filter(Boolean);
    this.wanted = { application: this.application.value.trim(), parties };
    this.completions = [];
    this.offset = 0;
    setText(this.flaw, "");
    this.more();
  }

  async more() {
    if (!this.wanted || this.isAsking) return;
    this.isAsking = true;
    const { wanted } = this;
    try {
      const page = await this.app.ask("cmd_completions", wanted.parties, this.offset, wanted.application, PAGE, 0);
      if (wanted !== this.wanted) return;
      this.offset = page.checkpoint;
      this.completions = [...page.completions.reverse(), ...this.completions].slice(0, KEPT_MAX);
      setText(this.flaw, "");
    } catch (error) {
      if (this.app.connection.state === "live") setText(this.flaw, error.message);
    } finally {
      this.isAsking = false;
      this.app.draw();
    }
  }

  draw() {
    const figures = this.app.model.status?.figures ?? {};
    keyed(
      this.figures,
      FIGURES,
      ([key]) => key,
      ([key, text]) => h("li", { "data-figure": key }, h("span", { class: "big" }), h("span", { class: "what" }, text)),
      (item, [key]) => setText(item.firstElementChild, number(figures[key])),
    );
    setText(this.count, this.wanted ? `${number(this.completions.length)} shown, up to offset ${number(this.offset)}` : "");
    keyed(this.rows, this.completions, (each) => each.offset, completionRow);
  }
}

function completionRow(each) {
  const row = h(
    "tr",
    {},
    h("th", { scope: "row" }, number(each.offset)),
    h("td", {}, clock(msOf(each.publishedAt))),
    h("td", {}, each.commandId),
    h("td", {}, each.actAs.join(", ")),
    h("td", {}, each.failure ? `${each.failure.errorId}: ${each.failure.message}` : "happened"),
    h("td", {}, each.transactionId ? h("a", { class: "mono", href: `#/transaction/${each.transactionId}` }, short(each.transactionId)) : "–"),
  );
  setAttribute(row.children[4], "data-failed", Boolean(each.failure));
  return row;
}
