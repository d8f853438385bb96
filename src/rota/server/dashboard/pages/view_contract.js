// One contract: its coordinator and why, transactions by state, rounds with their cost, and changes of coordinator.

import { clock, copyable, duration, facts, h, keyed, msOf, number, section, setAttribute, setText, short, svg, words } from "./dom.js";
import { chip, colourOf } from "./nodes.js";
import { Ring } from "./ring.js";
import { transactionHead, transactionRow, refreshTransactionRow, TRANSACTION_ROW_HEIGHT } from "./view_transaction.js";
import { VirtualList } from "./virtual_list.js";

const SENDING = ["Pending", "Delegated", "Assembling", "Signing", "EndorsementGathering", "Prepared", "Dispatched", "Sequenced", "Submitted", "Issued", "Ending", "Parked", "Confirmed"];
const COORDINATING = ["Pooled", "PreAssembly_Blocked", "Assembling", "Endorsement_Gathering", "Blocked", "Confirming_Dispatch", "Prepared", "Ready_For_Dispatch", "Dispatched", "Submitted", "Confirmed"];
const REFRESH_MIN_MS = 400;
const LEADERS_MS = 1_500;
const ROUNDS_SHOWN = 40;
const CHANGES_SHOWN = 30;
const LINE_MS = 300_000;
const LINE_WIDTH = 600;
const LINE_HEIGHT = 56;

export class ContractView {
  constructor(app) {
    this.app = app;
    this.address = "";
    this.status = null;
    this.ringFound = null;
    this.leaders = [];
    this.leadersAtMs = 0;
    this.askedAtMs = 0;
    this.isAsking = false;
    this.picker = h("select", { id: "contract-picker", "aria-label": "Contract" });
    this.picker.addEventListener("change", () => (location.hash = `#/contract/${this.picker.value}`));
    this.name = h("p", { class: "address" });
    this.flaw = h("p", { class: "flaw", role: "status" });
    this.about = h("div", {});
    this.ring = new Ring();
    this.sending = h("ol", { class: "pipeline", id: "sending", "aria-label": "As sender" });
    this.coordinating = h("ol", { class: "pipeline", id: "coordinating", "aria-label": "As coordinator" });
    this.rounds = h("tbody", { id: "rounds" });
    this.noRounds = h("p", { class: "soft" }, "This node has submitted no round of it lately.");
    this.line = svg("svg", { class: "leaders", viewBox: `0 0 ${LINE_WIDTH} ${LINE_HEIGHT}`, role: "img", preserveAspectRatio: "none" });
    this.changes = h("ol", { class: "changes", id: "changes" });
    this.list = new VirtualList({ label: "Transactions of this contract", rowHeight: TRANSACTION_ROW_HEIGHT, make: transactionRow, refresh: refreshTransactionRow });
    this.body = h(
      "div",
      { class: "stack" },
      section("Coordinator", this.ring.element),
      h(
        "div",
        { class: "columns" },
        section("Pipeline", h("h3", {}, "Of this node's users"), this.sending, h("h3", {}, "That this node coordinates"), this.coordinating),
        section("About", this.about),
      ),
      h(
        "div",
        { class: "columns" },
        section("Hand-overs and fail-overs", this.line, this.changes),
        section(
          "Rounds",
          this.noRounds,
          h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rounds, by nonce" }, h("table", {}, h("thead", {}, h("tr", {}, ...["nonce", "state", "size", "gas", "gas each", "block", "took"].map((text) => h("th", { scope: "col" }, text)))), this.rounds)),
        ),
      ),
      section("Transactions", transactionHead(), this.list.element),
    );
    this.element = h("div", { class: "view", id: "view-contract" }, h("div", { class: "title" }, h("h1", {}, "Contract"), this.picker), this.name, this.flaw, this.body);
  }

  enter([address]) {
    if (address && address !== this.address) {
      this.address = address;
      this.status = null;
      this.ringFound = null;
      this.leaders = [];
      this.leadersAtMs = 0;
      this.name.replaceChildren(copyable(address, address));
    }
    this.refresh(true);
  }

  back() {
    this.refresh(true);
  }

  tick() {
    this.refresh(false);
  }

  draw() {
    const { model } = this.app;
    if (!this.address && model.contracts.size) this.enter([busiest(model).contract]);
    this.drawPicker(model);
    this.body.hidden = !this.status;
    if (!this.status) return;
    const seen = model.contracts.get(this.address);
    if (seen !== this.seen) {
      this.seen = seen;
      this.refresh(false);
    }
    this.ring.set(this.status, this.ringFound);
    drawPipeline(this.sending, SENDING, this.status.sending);
    drawPipeline(this.coordinating, COORDINATING, this.status.coordinating);
    this.drawRounds(model);
    this.drawChanges(model);
    if (this.listVersion !== model.version) {
      this.listVersion = model.version;
      this.list.set(transactionsOf(model, this.address));
    }
  }

  async refresh(isWanted) {
    const nowMs = Date.now();
    if (!this.address || this.isAsking || (!isWanted && nowMs - this.askedAtMs < REFRESH_MIN_MS)) return;
    this.isAsking = true;
    this.askedAtMs = nowMs;
    const address = this.address;
    try {
      const status = await this.app.ask("seq_status", address);
      if (address !== this.address) return;
      if (status && (!this.ringFound || this.ringFound.ranges[0]?.range !== status.range)) {
        this.ringFound = await this.app.ask("seq_ring", address);
      }
      if (status && (status.activeCoordinator !== this.status?.activeCoordinator || nowMs - this.leadersAtMs > LEADERS_MS)) {
        this.leadersAtMs = nowMs;
        this.leaders = await this.app.ask("seq_leaders", address);
      }
      if (address !== this.address) return;
      this.status = status;
      setText(this.flaw, status ? "" : "This node does not have this contract.");
      if (status) this.drawAbout(status);
    } catch (error) {
      setText(this.flaw, this.app.connection.state === "live" ? error.message : "");
    } finally {
      this.isAsking = false;
      if (address !== this.address) this.refresh(true);
      this.app.draw();
    }
  }

  drawPicker(model) {
    const most = 200;
    const shown = [...model.contracts.keys()].slice(0, most);
    if (this.address && !shown.includes(this.address)) shown.unshift(this.address);
    keyed(this.picker, shown, (each) => each, (each) => h("option", { value: each }, `${short(each)}  ${model.contracts.get(each)?.domain ?? ""}`));
    if (this.picker.value !== this.address && document.activeElement !== this.picker) this.picker.value = this.address;
  }

  drawAbout(status) {
    const wanted = [
      ["Domain", status.domain],
      ["Coordinator", chip(status.activeCoordinator)],
      ["Since", status.activeSince ? `${clock(msOf(status.activeSince))}` : "this node follows, and does not say"],
      ["This node", `${words(status.coordinatorState)}, as sender ${words(status.senderState)}`],
      ["Committee", status.committee.join(", ")],
      ["Endorsers", `${status.threshold} of ${status.endorsers.length}: ${status.endorsers.join(", ")}`],
      ["Mode", `${status.mode}, ${status.rotation}, ranges of ${number(status.rangeSize)} blocks`],
      ["Range", `${number(status.range)} (blocks ${number(status.range * status.rangeSize)} to ${number((status.range + 1) * status.rangeSize - 1)})`],
      ["Height", number(status.height)],
      ["Silent", status.silent.join(", ") || "nobody"],
    ];
    const key = JSON.stringify(status);
    if (key === this.aboutShown) return;
    this.aboutShown = key;
    this.about.replaceChildren(facts(wanted));
  }

  drawRounds(model) {
    const found = [...model.rounds.values()].filter((round) => round.contract === this.address).reverse().slice(0, ROUNDS_SHOWN);
    this.noRounds.hidden = found.length > 0;
    const most = Math.max(1, ...found.map((round) => round.transactions));
    keyed(
      this.rounds,
      found,
      (round) => round.key,
      () => h("tr", {}, ...Array.from({ length: 7 }, (_, place) => h(place === 0 ? "th" : "td", place === 0 ? { scope: "row" } : {}, place === 2 ? [h("span", {}), h("meter", { min: 0, "aria-hidden": "true" })] : null))),
      (row, round) => {
        const [nonce, state, size, gas, each, block, took] = row.children;
        setText(nonce, number(round.nonce));
        setText(state, round.state);
        setAttribute(state, "data-state", round.state);
        setText(size.firstElementChild, number(round.transactions));
        setAttribute(size.lastElementChild, "max", most);
        setAttribute(size.lastElementChild, "value", round.transactions);
        setText(gas, number(round.gasUsed));
        setText(each, round.gasUsed && round.transactions ? number(Math.round(round.gasUsed / round.transactions)) : "–");
        setText(block, number(round.height));
        setText(took, round.minedMs && round.dispatchedMs ? duration(round.minedMs - round.dispatchedMs) : "–");
      },
    );
  }

  drawChanges(model) {
    const found = this.leaders.map(({ at, kind, former, leader, cause }) => ({ atMs: msOf(at), kind, from: former, to: leader, cause: cause ?? "" }));
    this.drawLine(model, found);
    keyed(
      this.changes,
      found.slice(-CHANGES_SHOWN).reverse(),
      (change) => `${change.atMs} ${change.to}`,
      (change) =>
        h(
          "li",
          { "data-kind": change.kind },
          h("time", {}, clock(change.atMs)),
          h("span", { class: "kind" }, change.kind),
          change.from ? [chip(change.from), h("span", { "aria-label": "to" }, "→")] : null,
          chip(change.to),
          change.cause ? h("span", { class: "soft" }, change.cause) : null,
        ),
    );
  }

  // Who led in the last minutes, from left to right.
  drawLine(model, found) {
    const nowMs = model.nowMs;
    const startMs = nowMs - LINE_MS;
    const x = (atMs) => Math.max(0, ((atMs - startMs) / LINE_MS) * LINE_WIDTH);
    const key = `${found.length} ${Math.floor(nowMs / 1_000)} ${this.address}`;
    if (key === this.lineShown) return;
    this.lineShown = key;
    const parts = found.map((change, place) => {
      const untilMs = found[place + 1]?.atMs ?? nowMs;
      return untilMs < startMs ? null : svg("rect", { class: "lead", "data-node": colourOf(change.to), x: x(change.atMs), width: Math.max(1, x(untilMs) - x(change.atMs)), y: 16, height: 18, rx: 2 });
    });
    const marks = found
      .filter((change) => change.kind !== "seen" && change.atMs >= startMs)
      .map((change) => svg("path", { class: "mark-of", "data-kind": change.kind, d: `M${x(change.atMs)} 12 l-5 -9 h10 z` }));
    const minutes = [0, 1, 2, 3, 4].map((minute) => svg("text", { x: (minute * LINE_WIDTH) / 5 + 2, y: 50 }, `${5 - minute} min ago`));
    this.line.replaceChildren(svg("rect", { class: "track", x: 0, width: LINE_WIDTH, y: 16, height: 18, rx: 2 }), ...parts.filter(Boolean), ...marks, ...minutes);
    const told = found.filter((change) => change.kind !== "seen").length;
    setAttribute(this.line, "aria-label", `Who led in the last five minutes; ${told} changes are listed below.`);
  }
}

function busiest(model) {
  let best = null;
  for (const contract of model.contracts.values()) {
    const weight = contract.sending + contract.coordinating + (contract.loaded ? 0.5 : 0);
    if (!best || weight > best.weight) best = { contract: contract.contract, weight };
  }
  return best;
}

export function transactionsOf(model, address) {
  const found = [];
  for (const each of model.transactions.values()) if (!address || each.contract === address) found.push(each);
  return found.reverse();
}

function drawPipeline(list, order, counts) {
  const most = Math.max(1, ...Object.values(counts));
  const states = [...order, ...Object.keys(counts).filter((state) => !order.includes(state))];
  keyed(
    list,
    states,
    (state) => state,
    (state) => h("li", { "data-state": state }, h("span", { class: "what" }, words(state)), h("span", { class: "track" }, h("span", { class: "fill" })), h("span", { class: "figure" })),
    (item, state) => {
      const count = counts[state] ?? 0;
      setText(item.lastElementChild, number(count));
      setAttribute(item, "data-busy", count > 0);
      const width = `${(count / most) * 100}%`;
      const fill = item.querySelector(".fill");
      if (fill.style.width !== width) fill.style.width = width;
    },
  );
}
