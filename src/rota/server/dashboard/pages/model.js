// What the page knows of the node, from the feed. Everything is bounded: what is oldest is forgotten first.
//
// An update may hold a thousand contracts and a thousand transactions. It is taken in in slices of a few milliseconds,
// one a frame, so that the page answers its user meanwhile; who looks is told once a frame that something has changed.

import { msOf } from "./dom.js";

export const TRANSACTIONS_MAX = 10_000;
const CONTRACTS_MAX = 2_000;
const ROUNDS_MAX = 400;
const STEPS_MAX = 32;
const SECONDS_KEPT = 120;
const SLICE_MS = 6;
const BEHIND_MAX = 64;

const ENDED = new Set(["confirmed", "reported", "skipped"]);

export class Model {
  constructor(onChange) {
    this.onChange = onChange;
    this.height = 0;
    this.atMs = 0;
    this.receivedAtMs = 0;
    this.nodeName = "";
    this.status = null;
    this.contracts = new Map();
    this.contractsOmitted = 0;
    this.transactions = new Map();
    this.transactionCount = 0;
    this.rounds = new Map();
    this.peers = new Map();
    this.heard = new Map();
    this.leads = new Map();
    this.seconds = [];
    this.totals = new Map();
    this.version = 0;
    this.hasSnapshot = false;
    this.updates = [];
    this.isTakingIn = false;
    this.work = null;
  }

  // From the feed. One who cannot keep up with it forgets the oldest that he has not looked at.
  push(update) {
    this.receivedAtMs = Date.now();
    if (update.snapshot) this.updates.length = 0;
    else if (this.updates.length >= BEHIND_MAX) this.updates.shift();
    this.updates.push(update);
    if (!this.isTakingIn) {
      this.isTakingIn = true;
      requestAnimationFrame(() => this.takeIn());
    }
  }

  takeIn() {
    const until = performance.now() + SLICE_MS;
    while (performance.now() < until) {
      this.work ??= this.updates.length ? this.steps(this.updates.shift()) : null;
      if (!this.work) break;
      if (this.work.next().done) this.work = null;
    }
    this.isTakingIn = this.work !== null || this.updates.length > 0;
    this.version += 1;
    this.onChange();
    if (this.isTakingIn) requestAnimationFrame(() => this.takeIn());
  }

  // One yield for some of the work, so that it can be left and gone on with.
  *steps(update) {
    this.height = update.height;
    this.atMs = msOf(update.at);
    if (update.snapshot) {
      this.contracts.clear();
      this.leads.clear();
      this.contractsOmitted = update.contractsOmitted;
      this.peers.clear();
      // What is under way is in the snapshot. What is not in it was missed, or is followed no more.
      for (const held of this.transactions.values()) held.isGivenUp = !held.hasEnded;
    }
    this.transactionCount += update.transactionsOmitted;
    for (const peer of update.peers) this.peers.set(peer.node, peer);
    for (const contract of update.contracts) {
      this.takeContract(contract);
      yield;
    }
    for (const change of update.transactions) {
      this.takeTransaction(change);
      yield;
    }
    for (const round of update.rounds) this.takeRound(round);
    for (const { node, count } of update.heartbeats) {
      const heard = this.heard.get(node) ?? { atMs: 0, count: 0 };
      heard.atMs = this.atMs;
      heard.count += count;
      this.heard.set(node, heard);
    }
    this.count(update.counts);
    this.hasSnapshot ||= update.snapshot;
  }

  // The node has reported its contracts and its status. Before that there is nothing to judge.
  get isComplete() {
    return this.hasSnapshot && this.status !== null;
  }

  takeContract(contract) {
    const before = this.contracts.get(contract.contract) ?? null;
    this.contracts.set(contract.contract, contract);
    bound(this.contracts, CONTRACTS_MAX);
    this.lead(before?.activeCoordinator, -1);
    this.lead(contract.activeCoordinator, 1);
  }

  lead(node, by) {
    if (!node) return;
    this.leads.set(node, (this.leads.get(node) ?? 0) + by);
  }

  takeTransaction(change) {
    const held = this.transactions.get(change.id) ?? { id: change.id, steps: [], firstMs: msOf(change.at), contract: "" };
    if (!this.transactions.delete(change.id)) this.transactionCount += 1;
    held.contract = change.contract ?? held.contract;
    held.milestone = change.milestone ?? held.milestone ?? "";
    held.state = change.state ?? "";
    held.detail = change.detail ?? "";
    // A milestone without a failure ends an earlier one: what lost its block has returned.
    held.failed = change.failed ?? (change.milestone ? false : (held.failed ?? false));
    held.atMs = msOf(change.at);
    held.hasEnded = held.hasEnded || ENDED.has(held.milestone);
    held.isGivenUp = (change.givenUp ?? false) && !held.hasEnded;
    for (const step of change.steps ?? (change.milestone ? [{ ...change, atMs: held.atMs }] : [])) {
      held.steps.push({ milestone: step.milestone, atMs: step.atMs, by: step.by ?? null, detail: step.detail ?? "" });
      if (held.steps.length > STEPS_MAX) held.steps.shift();
    }
    this.transactions.set(change.id, held);
    bound(this.transactions, TRANSACTIONS_MAX);
  }

  takeRound(round) {
    const key = `${round.account ?? ""}/${round.nonce}`;
    const held = this.rounds.get(key) ?? { key, nonce: round.nonce, contract: "", transactions: 0, dispatchedMs: 0 };
    this.rounds.delete(key);
    held.state = round.state;
    held.contract = round.contract ?? held.contract;
    held.transactions = round.transactions || held.transactions;
    if (round.at && round.state === "dispatched") held.dispatchedMs = msOf(round.at);
    else if (round.at) held.minedMs = msOf(round.at);
    held.height = round.height ?? held.height ?? null;
    held.gasUsed = round.gasUsed ?? held.gasUsed ?? null;
    this.rounds.set(key, held);
    bound(this.rounds, ROUNDS_MAX);
  }

  count(counts) {
    const second = Math.floor(this.atMs / 1_000);
    let last = this.seconds.at(-1);
    if (!last || last.second !== second) {
      last = { second, counts: {} };
      this.seconds.push(last);
      while (this.seconds[0].second < second - SECONDS_KEPT || this.seconds.length > SECONDS_KEPT) this.seconds.shift();
    }
    for (const [milestone, count] of Object.entries(counts)) {
      last.counts[milestone] = (last.counts[milestone] ?? 0) + count;
      this.totals.set(milestone, (this.totals.get(milestone) ?? 0) + count);
    }
  }

  // What the node's clock says now, by ours.
  get nowMs() {
    return this.atMs ? this.atMs + (Date.now() - this.receivedAtMs) : Date.now();
  }

  // How often a milestone was seen in each of the last seconds, the oldest first.
  rates(milestone, count) {
    const now = Math.floor(this.nowMs / 1_000);
    const found = new Array(count).fill(0);
    for (const { second, counts } of this.seconds) {
      const place = count - 1 - (now - second);
      if (place >= 0 && place < count) found[place] = counts[milestone] ?? 0;
    }
    return found;
  }

  get nodes() {
    return [this.nodeName, ...this.peers.keys()].filter(Boolean).sort();
  }
}

// A Map remembers what was put in first; what is put in anew is taken out before.
function bound(map, most) {
  while (map.size > most) map.delete(map.keys().next().value);
}
