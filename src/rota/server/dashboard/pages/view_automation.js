// Triggers: how each stands, what its attempts came to, and an operator's hand on it.

import { announce, confirmed, duration, h, keyed, number, setAttribute, setText } from "./dom.js";

const OUTCOMES = [
  ["won", "performed by us"],
  ["lost", "somebody else was first"],
  ["skipped", "done before we began"],
  ["failed", "not done"],
];

export class AutomationView {
  constructor(app) {
    this.app = app;
    this.triggers = null;
    this.flaw = h("p", { class: "flaw", role: "alert", id: "automation-flaw" });
    this.list = h("ul", { class: "triggers", id: "triggers" });
    this.none = h("p", { class: "soft" }, "This node runs no trigger.");
    this.element = h(
      "div",
      { class: "view", id: "view-automation" },
      h("h1", {}, "Automation"),
      h("p", { class: "lead-in" }, "Every member attempts each task, and the ledger lets one perform it. Losing is no failure: somebody else was first."),
      this.flaw,
      this.none,
      this.list,
    );
  }

  enter() {
    this.refresh();
  }

  tick() {
    this.refresh();
  }

  async refresh() {
    if (this.isAsking) return;
    this.isAsking = true;
    try {
      this.triggers = await this.app.ask("trigger_list");
      setText(this.flaw, "");
    } catch (error) {
      if (this.app.connection.state === "live") setText(this.flaw, error.message);
    } finally {
      this.isAsking = false;
      this.app.draw();
    }
  }

  draw() {
    this.none.hidden = !this.triggers || this.triggers.length > 0;
    keyed(this.list, this.triggers ?? [], (each) => each.name, (each) => this.card(each), (card, each) => this.refreshCard(card, each));
  }

  card(trigger) {
    const act = (id, text, run) => h("button", { type: "button", "data-action": id, onclick: run }, text);
    return h(
      "li",
      { class: "card trigger", "data-name": trigger.name },
      h("div", { class: "title" }, h("h2", {}, trigger.name), h("span", { class: "state-word small" })),
      h("p", { class: "soft about" }),
      h("div", { class: "split", role: "img" }, ...OUTCOMES.map(([name]) => h("span", { "data-outcome": name }))),
      h("dl", { class: "outcomes" }, ...OUTCOMES.map(([name, text]) => h("div", { "data-outcome": name, title: text }, h("dt", {}, name), h("dd", {})))),
      h("div", { class: "more" }),
      h("p", { class: "flaw trouble" }),
      h("ul", { class: "set-aside" }),
      h(
        "div",
        { class: "buttons" },
        act("pause", "Pause", () => this.act(trigger.name, "pause", "It begins nothing more, also after a restart. What it is performing it ends.")),
        act("resume", "Resume", () => this.act(trigger.name, "resume", "It begins again, with what was set aside too.")),
        act("runOnce", "Run once", () => this.act(trigger.name, "runOnce", "All that is ready is attempted now, without delay.")),
      ),
    );
  }

  refreshCard(card, trigger) {
    const state = trigger.paused ? "paused" : trigger.breaker !== "closed" ? "resting" : "running";
    const word = card.querySelector(".state-word");
    setText(word, state);
    setAttribute(word, "data-state", state);
    setText(card.querySelector(".about"), `${trigger.strategy}${trigger.strategy === trigger.wantedStrategy ? "" : `, though ${trigger.wantedStrategy} is wanted`}; ${trigger.isMember ? `one of ${number(trigger.members)} members` : "not a member"}; looks every ${duration(trigger.pollingIntervalMs)}`);
    const sum = OUTCOMES.reduce((all, [name]) => all + trigger.attempted[name], 0);
    for (const [name] of OUTCOMES) {
      const count = trigger.attempted[name];
      card.querySelector(`.split [data-outcome="${name}"]`).style.flexGrow = String(count);
      setText(card.querySelector(`.outcomes [data-outcome="${name}"] dd`), number(count));
    }
    setAttribute(card.querySelector(".split"), "aria-label", `${number(sum)} attempts: ${OUTCOMES.map(([name]) => `${trigger.attempted[name]} ${name}`).join(", ")}`);
    const more = `${number(trigger.waiting)} wait for their time, ${number(trigger.atWork)} at work`;
    setText(card.querySelector(".more"), more);
    setText(card.querySelector(".trouble"), trigger.trouble);
    keyed(card.querySelector(".set-aside"), trigger.setAside, (each) => each.task, (each) => h("li", {}, `${each.task} is set aside: ${each.reason}`));
    const mayOperate = this.app.roles.has("operate");
    const off = { pause: trigger.paused, resume: !trigger.paused && trigger.breaker === "closed" && trigger.setAside.length === 0, runOnce: false };
    for (const button of card.querySelectorAll("button")) {
      button.disabled = !mayOperate || off[button.dataset.action];
      setAttribute(button, "title", mayOperate ? null : "your credentials lack the role operate");
    }
  }

  async act(name, action, text) {
    const title = { pause: `Pause ${name}?`, resume: `Resume ${name}?`, runOnce: `Run ${name} once?` }[action];
    if (!(await confirmed(title, text, title.slice(0, -1)))) return;
    try {
      await this.app.ask(`trigger_${action}`, name);
      announce(`Done: ${title.slice(0, -1)}`);
    } catch (error) {
      setText(this.flaw, error.message);
    }
    this.refresh();
  }
}
