// The node itself: its queues, its peers, what it runs on, and how it is set.

import { announce, bytes, confirmed, date, duration, facts, h, keyed, msOf, number, section, setAttribute, setText } from "./dom.js";
import { chip } from "./nodes.js";

const QUEUES = [
  ["intentsOpen", "open transactions"],
  ["roundsUnconfirmed", "rounds without outcome"],
  ["writesOpen", "writes not durable"],
  ["commandsInFlight", "commands in flight"],
  ["contractsLoaded", "contracts in memory"],
  ["coordinatorsActive", "coordinated here"],
];

export class NodeView {
  constructor(app) {
    this.app = app;
    this.settings = null;
    this.queues = h("ol", { class: "flow", id: "queues" });
    this.peers = h("tbody", { id: "peers" });
    this.runs = h("div", { id: "runs" });
    this.filter = h("input", { type: "search", id: "setting-filter", "aria-label": "Find a setting", placeholder: "find a setting" });
    this.filter.addEventListener("input", () => this.app.draw());
    this.settingsFlaw = h("p", { class: "soft", id: "settings-flaw" });
    this.rows = h("tbody", { id: "settings" });
    this.consents = [];
    this.consentRows = h("ul", { id: "consents" });
    this.consentFlaw = h("p", { class: "flaw", role: "alert", id: "consent-flaw" });
    this.consentSection = section("Contracts that wait for consent", this.consentFlaw, this.consentRows);
    this.consentSection.hidden = true;
    this.element = h(
      "div",
      { class: "view", id: "view-node" },
      h("h1", {}, "Node"),
      this.consentSection,
      section("Queues", this.queues),
      h(
        "div",
        { class: "columns" },
        section("What it runs on", this.runs),
        section("Peers", h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Peers" }, h("table", {}, h("thead", {}, h("tr", {}, ...["node", "connection", "queued", "dropped"].map((text) => h("th", { scope: "col" }, text)))), this.peers))),
      ),
      section("Configuration, without secrets", this.settingsFlaw, h("div", { class: "finder" }, this.filter), h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Settings" }, h("table", {}, h("thead", {}, h("tr", {}, ...["setting", "value", "unit"].map((text) => h("th", { scope: "col" }, text)))), this.rows))),
    );
  }

  enter() {
    this.app.refreshStatus();
    this.readSettings();
    this.readConsents();
  }

  back() {
    this.readSettings();
    this.readConsents();
  }

  tick() {
    this.app.refreshStatus();
    if (this.app.model.status?.figures.consentsPending || this.consents.length) this.readConsents();
  }

  async readConsents() {
    if (this.isAsking) return;
    this.isAsking = true;
    try {
      this.consents = await this.app.ask("consent_list");
      setText(this.consentFlaw, "");
    } catch (error) {
      if (this.app.connection.state === "live") setText(this.consentFlaw, error.message);
    } finally {
      this.isAsking = false;
      this.app.draw();
    }
  }

  async decide(consent, action) {
    const title = `${action === "accept" ? "Accept" : "Refuse"} the contract of ${consent.proposer}?`;
    const text = action === "accept" ? `This node will ${consent.parts.join(" and ")} in it, and pays where it coordinates.` : "Its deployment ends.";
    if (!(await confirmed(title, text, title.slice(0, -1)))) return;
    try {
      await this.app.ask(`consent_${action}`, consent.proposer, consent.deployment);
      announce(`Done: ${title.slice(0, -1)}`);
    } catch (error) {
      setText(this.consentFlaw, error.message);
    }
    this.readConsents();
  }

  consentItem(consent) {
    const act = (id, text) => h("button", { type: "button", "data-action": id, onclick: () => this.decide(consent, id) }, text);
    const names = (shown, count) => `${shown.join(", ")}${count > shown.length ? ` and ${number(count - shown.length)} more` : ""}`;
    return h(
      "li",
      { "data-deployment": consent.deployment },
      h("p", {}, `${consent.domain}, proposed by `, chip(consent.proposer), `: this node would ${consent.parts.join(" and ")}. Asked ${date(msOf(consent.asked))}, expires ${date(msOf(consent.expires))}.`),
      h("p", { class: "soft" }, `Members: ${names(consent.members, consent.memberCount) || "none"}. ${number(consent.threshold)} of ${number(consent.endorserCount)} endorsers sign: ${names(consent.endorsers, consent.endorserCount)}. Mode ${consent.sequencing.mode}, rotation ${consent.sequencing.rotation}, ranges of ${number(consent.sequencing.rangeSize)} blocks.`),
      h("div", { class: "buttons" }, act("accept", "Accept"), act("refuse", "Refuse")),
    );
  }

  drawConsents() {
    this.consentSection.hidden = this.consents.length === 0 && !this.consentFlaw.textContent;
    keyed(this.consentRows, this.consents, (each) => `${each.proposer} ${each.deployment}`, (each) => this.consentItem(each));
    const mayOperate = this.app.roles.has("operate");
    for (const button of this.consentRows.querySelectorAll("button")) {
      button.disabled = !mayOperate;
      setAttribute(button, "title", mayOperate ? null : "your credentials lack the role operate");
    }
  }

  async readSettings() {
    try {
      this.settings = await this.app.ask("node_configuration");
      setText(this.settingsFlaw, "");
    } catch (error) {
      this.settings = null;
      setText(this.settingsFlaw, error.message);
    }
    this.app.draw();
  }

  draw() {
    this.drawConsents();
    const { status } = this.app.model;
    if (!status) return;
    keyed(
      this.queues,
      QUEUES,
      ([key]) => key,
      ([key, text]) => h("li", { "data-figure": key }, h("span", { class: "big" }), h("span", { class: "what" }, text)),
      (item, [key]) => setText(item.firstElementChild, number(status.figures[key])),
    );
    keyed(
      this.peers,
      status.peers,
      (peer) => peer.node,
      (peer) => h("tr", { "data-name": peer.node }, h("th", { scope: "row" }, chip(peer.node)), h("td", {}), h("td", {}), h("td", {})),
      (row, peer) => {
        setText(row.children[1], peer.connected ? "connected" : "not connected");
        setAttribute(row.children[1], "data-failed", !peer.connected);
        setText(row.children[2], number(peer.queued));
        setText(row.children[3], number(peer.dropped));
      },
    );
    this.drawRuns(status);
    const wanted = this.filter.value.trim().toLowerCase();
    const found = (this.settings ?? []).filter((each) => `${each.path} ${each.value}`.toLowerCase().includes(wanted));
    keyed(this.rows, found, (each) => each.path, (each) => h("tr", { "data-default": each.isDefault }, h("th", { scope: "row", class: "mono" }, each.path), h("td", { class: "mono" }, each.value || "–"), h("td", {}, each.unit)));
  }

  drawRuns(status) {
    const key = JSON.stringify([status.database, Math.round(status.memoryBytes / 1e6), status.figures, status.missing, status.warnings]);
    if (key === this.runsShown) return;
    this.runsShown = key;
    this.runs.replaceChildren(
      facts([
        ["Ready", status.missing.length ? status.missing.join("; ") : "yes"],
        ["Warnings", status.warnings.join("; ") || "none"],
        ["Version", status.version],
        ["Began", `${date(msOf(status.startedAt))}, ${duration(Date.now() - msOf(status.startedAt))} ago`],
        ["Memory", bytes(status.memoryBytes)],
        ["Database", `${status.database.kind}, ${bytes(status.database.sizeBytes)}`],
        ["Where", status.database.place],
        ["Its trouble", status.database.trouble || "none"],
        ["Ledger", `block ${number(status.figures.ledgerHeight)}, read up to ${number(status.figures.indexHeight)}`],
        ["Certificate until", date((status.figures.certificateValidUntilS ?? 0) * 1_000)],
        ["You are", `${status.caller.name} (${status.caller.roles.join(", ")})`],
      ]),
    );
  }
}
