// The newest transactions, and one of them: its state, what it waits for, who holds it up, and its timeline.

import { announce, clock, confirmed, copyable, date, duration, facts, h, keyed, msOf, number, section, setAttribute, setText, short, words } from "./dom.js";
import { chip } from "./nodes.js";
import { arrowsOf, SequenceDiagram } from "./sequence.js";
import { VirtualList } from "./virtual_list.js";

export const TRANSACTION_ROW_HEIGHT = 40;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const STATES_SHOWN = 50;

export class TransactionView {
  constructor(app) {
    this.app = app;
    this.id = "";
    this.search = h("input", { id: "transaction-id", type: "search", placeholder: "id of a transaction", "aria-label": "Id of a transaction", spellcheck: "false" });
    this.flaw = h("p", { class: "flaw", role: "alert", id: "transaction-flaw" });
    const form = h("form", { class: "finder", role: "search" }, this.search, h("button", { type: "submit" }, "Show"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const wanted = this.search.value.trim();
      if (UUID.test(wanted)) location.hash = `#/transaction/${wanted.toLowerCase()}`;
      else setText(this.flaw, "An id looks like 00000000-0000-4000-8000-000000000001.");
    });
    this.only = h("select", { id: "transaction-filter", "aria-label": "Which transactions" }, ...[["all", "all"], ["open", "under way"], ["failed", "failed"]].map(([value, text]) => h("option", { value }, text)));
    this.only.addEventListener("change", () => {
      this.listVersion = -1;
      this.app.draw();
    });
    this.count = h("span", { class: "count", id: "transaction-count" });
    this.list = new VirtualList({ label: "Transactions, the latest first", rowHeight: TRANSACTION_ROW_HEIGHT, make: transactionRow, refresh: refreshTransactionRow });
    this.standing = h("div", { class: "standing", id: "standing" });
    this.waits = h("p", { class: "waits", id: "waits" });
    this.actions = h("div", { class: "buttons" });
    this.diagram = new SequenceDiagram();
    this.history = h("ol", { class: "history" });
    this.receipt = h("div", { id: "receipt" });
    this.states = h("div", { id: "states" });
    this.detail = h(
      "div",
      { id: "transaction-detail", hidden: true },
      section("State", this.standing, this.waits, this.actions),
      section("Timeline", h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Timeline as a diagram" }, this.diagram.element), h("details", {}, h("summary", {}, "States at this node, with times"), this.history)),
      h("div", { class: "columns" }, section("Receipt", this.receipt), section("States that this node may see", this.states)),
    );
    this.feed = section("Transactions as they go by", h("div", { class: "finder" }, this.only, this.count), transactionHead(), this.list.element);
    this.element = h("div", { class: "view", id: "view-transaction" }, h("h1", {}, "Transactions"), form, this.flaw, this.detail, this.feed);
  }

  enter([id]) {
    setText(this.flaw, "");
    this.id = id ?? "";
    this.found = null;
    this.full = null;
    this.receiptFound = null;
    this.statesFound = undefined;
    this.explained = null;
    this.detail.hidden = true;
    this.app.connection.follow(this.id);
    if (this.id) {
      this.search.value = this.id;
      this.refresh();
    }
  }

  back() {
    if (this.id) this.refresh();
  }

  leave() {
    this.app.connection.follow("");
  }

  tick() {
    if (this.id && !this.hasAll) this.refresh();
  }

  get hasAll() {
    return this.receiptFound && this.statesFound !== undefined;
  }

  async refresh() {
    const id = this.id;
    if (this.asking === id) return;
    this.asking = id;
    try {
      // In this order: with a receipt nothing is asked again, and then what is explained must be as late as that.
      const full = await this.app.ask("ptx_getTransactionFull", id);
      // A node has receipts of other nodes' transactions too.
      const receipt = full ? full.receipt : await this.app.ask("ptx_getTransactionReceipt", id);
      const explained = await this.app.ask("seq_explain", id);
      if (id !== this.id) return;
      this.explained = explained;
      this.full = full;
      this.receiptFound = receipt ?? null;
      if (receipt) {
        const states = await this.app.ask("ptx_getStateReceipt", id);
        if (id !== this.id) return;
        this.statesFound = states;
      }
      setText(this.flaw, explained || full || receipt ? "" : "This node does not know this transaction.");
    } catch (error) {
      if (this.app.connection.state === "live" && id === this.id) setText(this.flaw, error.message);
    } finally {
      if (this.asking === id) this.asking = "";
      this.app.draw();
    }
  }

  draw() {
    const { model } = this.app;
    this.drawDetail(model);
    if (this.listVersion === model.version) return;
    this.listVersion = model.version;
    const wanted = this.only.value;
    const found = [];
    for (const each of model.transactions.values()) {
      if (wanted === "all" || (wanted === "open" ? !each.hasEnded && !each.isGivenUp : each.failed)) found.push(each);
    }
    setText(this.count, countText(found.length, model));
    this.list.set(found.reverse());
  }

  drawDetail(model) {
    const { explained, full, receiptFound: receipt } = this;
    this.detail.hidden = !this.id || !(explained || full || receipt);
    if (this.detail.hidden) return;
    const key = JSON.stringify([explained, full, receipt, this.statesFound, [...this.app.roles]]);
    const seen = model.transactions.get(this.id);
    if (seen && seen.atMs !== this.seenMs && !this.hasAll) {
      this.seenMs = seen.atMs;
      this.refresh();
    }
    this.diagram.draw(arrowsOf(stepsOf(seen, explained, full, receipt), model.nodeName, explained?.role ?? "sender"));
    if (key === this.shown) return;
    this.shown = key;
    const state = explained?.state ?? (receipt ? (receipt.success ? "Confirmed" : "Reverted") : "");
    this.standing.replaceChildren(
      h("p", { class: "state-word", "data-state": state }, words(state)),
      h("p", {}, explained?.meaning ?? ""),
      facts([
        ["Id", copyable(this.id, this.id)],
        ["Contract", explained?.contract ? h("a", { class: "mono", href: `#/contract/${explained.contract}` }, short(explained.contract)) : "–"],
        ["This node's role", explained?.role ?? "–"],
        ["From", full?.from ?? "–"],
        ["Function", full?.function || "–"],
        ["In this state since", explained?.since ? date(msOf(explained.since)) : "–"],
        ["More", explained?.detail || "–"],
      ]),
    );
    this.drawWaits(explained);
    this.drawActions(state, full, receipt);
    keyed(this.history, explained?.history ?? [], (line) => `${line.at} ${line.text}`, (line) => h("li", {}, h("time", {}, clock(msOf(line.at))), h("span", {}, words(line.text))));
    this.drawReceipt(full, receipt);
    this.drawStates();
  }

  drawWaits(explained) {
    if (!explained?.waitsFor) {
      this.waits.replaceChildren("It waits for nothing.");
      return;
    }
    const who = explained.blockedBy.flatMap((node) => [" ", chip(node)]);
    this.waits.replaceChildren(h("strong", {}, "Waits for "), explained.waitsFor, ...(who.length ? [h("strong", {}, " – in the way:"), ...who] : []));
  }

  drawActions(state, full, receipt) {
    const maySubmit = this.app.roles.has("submit");
    const why = receipt ? "it has ended" : !full ? "another node submitted it" : maySubmit ? null : "your credentials lack the role submit";
    const button = (id, text, isOff, run) => h("button", { type: "button", id, disabled: isOff, title: isOff ? (why ?? "only a parked one can be resumed") : null, onclick: run }, text);
    this.actions.replaceChildren(
      button("resume", "Resume", Boolean(why) || state !== "Parked", () => this.act("resume", "ptx_resumeTransaction", "It is delegated again and goes on.")),
      button("cancel", "Cancel", Boolean(why), () => this.act("cancel", "ptx_cancelTransaction", "It is given up. It ends as soon as no version of it can happen any more; this cannot be taken back.")),
    );
  }

  async act(name, method, text) {
    const id = this.id;
    const title = `${name[0].toUpperCase()}${name.slice(1)} this transaction?`;
    if (!(await confirmed(title, `${id}: ${text}`, `${title.slice(0, -1).replace(" this transaction", "")} it`))) return;
    try {
      await this.app.ask(method, id);
      announce(`Done: ${name}`);
    } catch (error) {
      setText(this.flaw, error.message);
    }
    this.refresh();
  }

  drawReceipt(full, receipt) {
    if (!receipt) {
      this.receipt.replaceChildren(h("p", { class: "soft" }, "There is none yet."));
      return;
    }
    this.receipt.replaceChildren(
      facts([
        ["Outcome", h("span", { class: "state-word small", "data-state": receipt.success ? "Confirmed" : "Reverted" }, receipt.success ? "confirmed" : "reverted")],
        ...(receipt.failureMessage ? [["Reason", receipt.failureMessage]] : []),
        ["Block", number(receipt.blockNumber)],
        ["Transaction", receipt.transactionHash ? copyable(receipt.transactionHash) : "–"],
        ["Made contract", receipt.contractAddress ? copyable(receipt.contractAddress) : "–"],
        ["Written", date(msOf(receipt.indexed))],
        ["Took", full?.created ? duration(msOf(receipt.indexed) - msOf(full.created)) : "–"],
        ["Number", number(receipt.sequence)],
      ]),
    );
  }

  drawStates() {
    const states = this.statesFound;
    const kinds = [["spent", "Spent"], ["read", "Read"], ["confirmed", "Made"], ["info", "For information"]];
    const parts = [];
    for (const [key, text] of kinds) {
      const found = states?.[key] ?? [];
      if (!found.length) continue;
      const shown = found.slice(0, STATES_SHOWN).map((state) => h("li", {}, copyable(state.id), h("code", {}, JSON.stringify(state.data))));
      parts.push(h("h3", {}, `${text} (${number(found.length)})`), h("ul", { class: "states" }, shown));
    }
    const hidden = Object.values(states?.unavailable ?? {}).flat().length;
    if (hidden) parts.push(h("p", { class: "soft" }, `${number(hidden)} more are not for this node to see.`));
    this.states.replaceChildren(...(parts.length ? parts : [h("p", { class: "soft" }, states === undefined ? "They are shown when it has ended." : "There are none that this node has.")]));
  }
}

// What the feed told, and where it told nothing, what can be known afterwards.
function stepsOf(seen, explained, full, receipt) {
  // Of one that ended before the page was opened the feed told no block; its receipt does.
  const steps = (seen?.steps ?? []).filter((step) => step.detail || step.milestone !== "confirmed" || !receipt);
  const has = (milestone) => steps.some((step) => step.milestone === milestone);
  const first = full?.created ? msOf(full.created) : msOf(explained?.history[0]?.at);
  if (full && first && !has("accepted")) steps.push({ milestone: "accepted", atMs: first, by: null, detail: "" });
  for (const sent of full?.public ?? []) {
    if (!has("dispatched")) steps.push({ milestone: "dispatched", atMs: msOf(sent.created), by: null, detail: sent.nonce ? `nonce ${Number(sent.nonce)}` : "" });
  }
  if (receipt && receipt.blockNumber !== undefined && !has("confirmed") && receipt.success) {
    steps.push({ milestone: "confirmed", atMs: msOf(receipt.indexed), by: null, detail: `block ${receipt.blockNumber}` });
  }
  if (receipt && !has("reported")) {
    steps.push({ milestone: "reported", atMs: msOf(receipt.indexed), by: null, detail: receipt.success ? "confirmed" : `reverted: ${receipt.failureMessage ?? ""}` });
  }
  const order = ["accepted", "delegated", "assembled", "endorsed", "permitted", "dispatched", "confirmed", "skipped", "reported"];
  return steps.sort((one, other) => one.atMs - other.atMs || order.indexOf(one.milestone) - order.indexOf(other.milestone));
}

// Under load not all are told one by one, and the oldest are forgotten; how many there were is known all the same.
function countText(shown, model) {
  const isAll = model.transactionCount <= model.transactions.size;
  return isAll ? `${number(shown)} shown` : `${number(shown)} shown of ${number(model.transactionCount)} that went by`;
}

export function transactionHead() {
  return h("div", { class: "row transaction-row head", "aria-hidden": "true" }, ...["transaction", "milestone", "state here", "contract", "at"].map((text) => h("span", {}, text)));
}

export function transactionRow() {
  return h("div", { class: "row transaction-row" }, h("a", { class: "mono" }), h("span", { class: "milestone" }), h("span", { class: "soft" }), h("span", { class: "mono soft" }), h("time", { class: "figure" }));
}

export function refreshTransactionRow(row, each) {
  const [link, milestone, state, contract, at] = row.children;
  setAttribute(link, "href", `#/transaction/${each.id}`);
  setAttribute(link, "title", each.id);
  setText(link, short(each.id));
  setText(milestone, each.isGivenUp ? "no longer followed" : each.failed ? (each.detail === "FINALITY_BROKEN" ? "block lost" : "reverted") : each.milestone === "reported" ? "confirmed, told" : each.milestone || "under way");
  setAttribute(milestone, "data-failed", each.failed);
  setAttribute(milestone, "data-milestone", each.milestone);
  setText(state, each.state ? words(each.state) : "");
  setText(contract, each.contract ? short(each.contract) : "");
  setText(at, clock(each.atMs));
}
