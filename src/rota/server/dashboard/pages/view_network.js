// The network as this node sees it: problems, nodes, rates, and the coordinator of each contract.

import { duration, h, keyed, number, section, setAttribute, setText, short, words } from "./dom.js";
import { Bars, chip, learnNodes, refreshChip } from "./nodes.js";
import { VirtualList } from "./virtual_list.js";

const MILESTONES = [
  ["accepted", "a user asked, and it is durable"],
  ["delegated", "the coordinator has it"],
  ["assembled", "its domain worked out what it does"],
  ["endorsed", "an endorser signed it"],
  ["permitted", "its sender let it go"],
  ["dispatched", "a round took it to the ledger"],
  ["confirmed", "the ledger has it"],
];
const SECONDS = 60;
const ROW_HEIGHT = 40;
const PULSE_MS = 700;

export class NetworkView {
  constructor(app) {
    this.app = app;
    this.verdict = h("p", { class: "verdict", id: "verdict" });
    this.problems = h("ul", { class: "problems", id: "problems" });
    this.nodes = h("ul", { class: "nodes", id: "nodes" });
    this.flow = h("ol", { class: "flow", id: "flow" });
    this.bars = new Bars("confirmed in each second", SECONDS);
    this.rate = h("p", { class: "rate" });
    this.filter = h("input", { type: "search", id: "contract-filter", "aria-label": "Find a contract by address, domain or coordinator", placeholder: "address, domain or coordinator" });
    this.filter.addEventListener("input", () => this.app.draw());
    this.count = h("span", { class: "count", id: "contract-count" });
    this.list = new VirtualList({ label: "Contracts", rowHeight: ROW_HEIGHT, make: contractRow, refresh: refreshContractRow });
    this.element = h(
      "div",
      { class: "view", id: "view-network" },
      h("h1", {}, "Network"),
      this.verdict,
      this.problems,
      h(
        "div",
        { class: "columns" },
        section("Nodes", this.nodes),
        section("What flows through this node", this.flow, h("div", { class: "throughput" }, this.rate, this.bars.element)),
      ),
      section("Contracts", h("div", { class: "finder" }, this.filter, this.count), contractHead(), this.list.element),
    );
  }

  draw() {
    const { model } = this.app;
    learnNodes(model.nodes);
    this.drawVerdict(model);
    this.drawNodes(model);
    this.drawFlow(model);
    this.drawContracts(model);
  }

  drawVerdict(model) {
    const problems = problemsOf(this.app);
    if (!model.isComplete && problems.length === 0) {
      setText(this.verdict, "Loading the state of this node …");
      return;
    }
    const nodes = model.nodes.length;
    const rate = model.rates("confirmed", 10).reduce((sum, each) => sum + each, 0) / 10;
    const leaders = [...model.leads].filter(([, count]) => count > 0).map(([node]) => node);
    const isLive = this.app.connection.state === "live";
    const who = !isLive ? "who coordinates is unknown" : leaders.length === 0 ? "nobody coordinates at present" : `${leaders.sort().join(", ")} coordinate${leaders.length > 1 ? "" : "s"}`;
    const plural = (count, one) => `${number(count)} ${one}${count === 1 ? "" : "s"}`;
    const pace = isLive ? `; ${rate.toFixed(1)} confirmed a second` : "";
    setText(
      this.verdict,
      `${problems.length ? plural(problems.length, "problem") + "." : "All is well."} ${plural(nodes, "node")}, ` +
        `${plural(model.contracts.size + model.contractsOmitted, "contract")}; ${who}${pace}.`,
    );
    setAttribute(this.verdict, "data-well", problems.length === 0);
    keyed(this.problems, problems, (each) => each.text, (each) => h("li", { "data-weight": each.weight }, each.text));
  }

  drawNodes(model) {
    const peers = model.nodes.map((name) => ({ name, peer: model.peers.get(name) ?? null, isOurs: name === model.nodeName }));
    keyed(this.nodes, peers, (each) => each.name, nodeCard, (card, each) => refreshNodeCard(card, each, model, this.app.connection.state === "live"));
  }

  drawFlow(model) {
    keyed(
      this.flow,
      MILESTONES,
      ([name]) => name,
      ([name, text]) => h("li", { title: text, "data-milestone": name }, h("span", { class: "big" }), h("span", { class: "what" }, name)),
      (item, [name]) => {
        const count = model.rates(name, SECONDS).reduce((sum, each) => sum + each, 0);
        setText(item.firstElementChild, number(count));
        setAttribute(item, "data-busy", count > 0);
      },
    );
    const confirmed = model.rates("confirmed", SECONDS);
    const sum = confirmed.reduce((all, each) => all + each, 0);
    setText(this.rate, `seen here in the last ${SECONDS} s, repetitions and every signature counted; below, confirmed in each second`);
    this.bars.set(confirmed, `${sum} confirmed in the last ${SECONDS} seconds`);
  }

  drawContracts(model) {
    const wanted = this.filter.value.trim().toLowerCase();
    let found = this.found;
    if (this.foundVersion !== model.version || this.foundWanted !== wanted) {
      found = [...model.contracts.values()];
      if (wanted) {
        found = found.filter((each) => `${each.contract} ${each.domain} ${each.activeCoordinator ?? ""}`.toLowerCase().includes(wanted));
      }
      this.found = found;
      this.foundVersion = model.version;
      this.foundWanted = wanted;
    }
    const omitted = model.contractsOmitted ? ` of ${number(model.contracts.size + model.contractsOmitted)}` : "";
    setText(this.count, `${number(found.length)}${omitted}`);
    this.list.set(found);
  }
}

// What an operator should look at, the worst first.
export function problemsOf(app) {
  const { model, connection } = app;
  const found = [];
  if (connection.state !== "live") found.push({ weight: "bad", text: "This page does not reach its node; it shows the last known data." });
  for (const text of model.status?.missing ?? []) found.push({ weight: "bad", text: `This node is not ready: ${text}` });
  for (const peer of model.peers.values()) {
    if (!peer.connected) found.push({ weight: "bad", text: `${peer.node} is not connected.` });
    else if (peer.queued > 1_000) found.push({ weight: "fair", text: `${number(peer.queued)} messages wait for ${peer.node}.` });
  }
  const figures = model.status?.figures;
  if (figures && figures.ledgerHeight !== null && figures.indexHeight !== null && figures.ledgerHeight - figures.indexHeight > 20) {
    found.push({ weight: "fair", text: `This node is ${number(figures.ledgerHeight - figures.indexHeight)} blocks behind the ledger.` });
  }
  if (model.status?.sending.Parked) found.push({ weight: "fair", text: `${number(model.status.sending.Parked)} transactions are parked and wait for their users.` });
  if (model.status?.database.trouble) found.push({ weight: "bad", text: `The database: ${model.status.database.trouble}` });
  for (const text of model.status?.warnings ?? []) found.push({ weight: "fair", text });
  return found;
}

function nodeCard({ name, isOurs }) {
  return h(
    "li",
    { class: "node", "data-name": name },
    h("div", { class: "head" }, chip(name), isOurs ? h("span", { class: "tag" }, "this node") : null, h("span", { class: "pulse", "aria-hidden": "true" })),
    h("p", { class: "state" }),
    h("p", { class: "leads" }),
    h("p", { class: "heard" }),
  );
}

function refreshNodeCard(card, { name, peer, isOurs }, model, isLive) {
  const isThere = isLive && (isOurs || peer?.connected);
  const leads = model.leads.get(name) ?? 0;
  const heard = model.heard.get(name);
  setAttribute(card, "data-there", Boolean(isThere));
  setText(card.querySelector(".state"), !isLive ? "unknown" : isOurs ? "serves this page" : isThere ? (peer.queued ? `connected, ${number(peer.queued)} queued` : "connected") : "not connected");
  setText(card.querySelector(".leads"), !isLive ? "" : leads > 0 ? `coordinates ${number(leads)}` : "coordinates nothing");
  const ago = heard ? model.nowMs - heard.atMs : Infinity;
  setText(card.querySelector(".heard"), isOurs ? `block ${number(model.height)}` : heard ? `heartbeat ${ago < 1_500 ? "just now" : `${duration(ago)} ago`}` : leads > 0 ? "no heartbeat yet" : "so sends no heartbeat");
  setAttribute(card.querySelector(".pulse"), "data-beat", ago < PULSE_MS ? heard.count % 2 : null);
}

function contractHead() {
  return h("div", { class: "row contract-row head", "aria-hidden": "true" }, ...["contract", "domain", "coordinator", "here", "sending", "coordinating"].map((text) => h("span", {}, text)));
}

function contractRow() {
  const row = h("div", { class: "row contract-row" }, h("a", { class: "mono" }), h("span", {}), chip(""), h("span", { class: "soft" }), h("span", { class: "figure" }), h("span", { class: "figure" }));
  return row;
}

function refreshContractRow(row, contract) {
  const [link, domain, coordinator, state, sending, coordinating] = row.children;
  setAttribute(link, "href", `#/contract/${contract.contract}`);
  setAttribute(link, "title", contract.contract);
  setText(link, short(contract.contract));
  setText(domain, contract.domain);
  refreshChip(coordinator, contract.activeCoordinator);
  setText(state, contract.loaded ? words(contract.coordinatorState) : "asleep");
  setText(sending, number(contract.sending));
  setText(coordinating, number(contract.coordinating));
}
