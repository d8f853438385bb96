// An atomic swap of two notary tokens as applications do it: prepare both unlocks, create the atom, delegate both locks,
// execute; cancelled in each step, and with a leg that fails.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { Client, until } from "./client.js";
import type { Json } from "./client.js";
import { recorded } from "./recorded.js";

const node1 = new Client(process.env["ROTA_NODE1"] ?? "");
const node2 = new Client(process.env["ROTA_NODE2"] ?? "");
const atomArtifact = JSON.parse(process.env["ROTA_ATOM"] ?? "{}");
const NO_DATA = "0x";

interface Leg {
  token: string;
  lock: Json;
}

let gold = "";
let silver = "";

async function newNoto(): Promise<string> {
  const deploy = recorded("NotoFactory.newNoto(basic).waitForDeploy", "ptx_sendTransaction");
  return (await node1.succeeded(await node1.ask(deploy.method, deploy.params))).contractAddress;
}

// Functions of Rota's tokens that the client's private ABI does not have: they are called without an ABI.
const WITHOUT_ABI = ["cancelLock"];

// A private transaction; its domain receipt.
async function ask(node: Client, from: string, token: string, name: string, data: Json): Promise<Json> {
  const { params } = recorded("noto.lock", "ptx_sendTransaction", { address: token });
  const { abi, ...request } = params[0];
  const known = WITHOUT_ABI.includes(name) ? request : { ...request, abi };
  const sent = { ...known, from, function: name, data: { data: NO_DATA, ...data } };
  await until(() => node.ask("ptx_call", [{ ...sent, function: "name", data: {} }]).catch(() => null), "the token");
  return (await node.succeeded(await node.ask("ptx_sendTransaction", [sent]), true)).domainReceipt;
}

async function call(name: string, token: string, data: Json, from = "a@node1", node = node1): Promise<Json> {
  const { params } = recorded("noto.spendLock(public)", "ptx_sendTransaction", { address: token });
  return node.receipt(await node.ask("ptx_sendTransaction", [{ ...params[0], from, function: name, data }]));
}

async function balance(node: Client, token: string, account: string): Promise<number> {
  const asked = recorded("noto.balanceOf", "ptx_call", { address: token });
  asked.params[0].data.account = account;
  return Number((await node.ask(asked.method, asked.params)).totalBalance);
}

async function holds(token: string, account: string, amount: number): Promise<void> {
  await until(async () => ((await balance(node1, token, account)) === amount ? true : null), `${account}: ${amount}`);
}

// Gold of a for b in one step, silver of b for a in two.
async function prepared(amount: number): Promise<[Leg, Leg]> {
  const toB = [{ to: "b@node2", amount }];
  const first = await ask(node1, "a@node1", gold, "createTransferLock", {
    from: "a@node1",
    recipients: toB,
    unlockData: NO_DATA,
  });
  const locked = await ask(node2, "b@node2", silver, "lock", { amount });
  const second = await ask(node2, "b@node2", silver, "prepareUnlock", {
    lockId: locked.lockInfo.lockId,
    from: "b@node2",
    recipients: [{ to: "a@node1", amount }],
    unlockData: NO_DATA,
  });
  for (const { lockInfo } of [first, second]) {
    assert.equal(lockInfo.delegate, undefined);
    assert.equal(lockInfo.unlockFunction, "spendLock");
    assert.match(lockInfo.spendTxId, /^0x[0-9a-f]{64}$/);
  }
  return [
    { token: gold, lock: first.lockInfo },
    { token: silver, lock: second.lockInfo },
  ];
}

async function newAtom(legs: Leg[]): Promise<string> {
  const operations = legs.map(({ token, lock }) => ({ contractAddress: token, callData: lock.unlockCall }));
  const canceller = await node1.ask("ptx_resolveVerifier", ["a@node1", "ecdsa:secp256k1", "eth_address"]);
  const deploy = { type: "public", from: "a@node1", ...atomArtifact, data: { operations, cancellers: [canceller] } };
  return (await node1.succeeded(await node1.ask("ptx_sendTransaction", [deploy]))).contractAddress;
}

async function onAtom(atom: string, name: string, data: Json = {}): Promise<Json> {
  const sent = { type: "public", from: "a@node1", to: atom, abi: atomArtifact.abi, function: name, data };
  return node1.receipt(await node1.ask("ptx_sendTransaction", [sent]));
}

async function delegate(leg: Leg, to: string): Promise<void> {
  const [node, owner] = leg.token === gold ? [node1, "a@node1"] : [node2, "b@node2"];
  const told = await ask(node, owner, leg.token, "delegateLock", { lockId: leg.lock.lockId, delegate: to });
  assert.equal(told.lockInfo.delegate, to.toLowerCase());
}

before(async () => {
  [gold, silver] = [await newNoto(), await newNoto()];
  for (const [token, to] of [[gold, "a@node1"], [silver, "b@node2"]] as const) {
    await ask(node1, "a@node1", token, "mint", { to, amount: 100 });
  }
});

test("a swap is executed by its atom, once", async () => {
  const legs = await prepared(10);
  const atom = await newAtom(legs);
  await delegate(legs[0], atom);
  const early = await onAtom(atom, "execute");
  assert.match(early.failureMessage, /LockUnauthorized/);
  await holds(gold, "b@node2", 0);
  await delegate(legs[1], atom);
  assert.equal((await onAtom(atom, "execute")).success, true);
  await holds(gold, "b@node2", 10);
  await holds(silver, "a@node1", 10);
  assert.match((await onAtom(atom, "execute")).failureMessage, /NotPending/);
  const late = await call("cancelLock", gold, legs[0].lock.cancelParams);
  assert.match(late.failureMessage, /LockNotActive.*the lock was spent or cancelled/);
});

test("a swap is cancelled before there is a delegate, by the owners", async () => {
  const [a, b] = [await balance(node1, gold, "a@node1"), await balance(node1, silver, "b@node2")];
  const legs = await prepared(5);
  await newAtom(legs);
  await ask(node1, "a@node1", gold, "cancelLock", { lockId: legs[0].lock.lockId });
  await ask(node2, "b@node2", silver, "cancelLock", { lockId: legs[1].lock.lockId });
  await holds(gold, "a@node1", a);
  await holds(silver, "b@node2", b);
});

test("a swap is cancelled by its atom when one lock is delegated, and when both are", async () => {
  const [a, b] = [await balance(node1, gold, "a@node1"), await balance(node1, silver, "b@node2")];
  for (const count of [1, 2]) {
    const legs = await prepared(5);
    const atom = await newAtom(legs);
    const given = legs.slice(0, count);
    for (const leg of given) await delegate(leg, atom);
    const operations = given.map(({ token, lock }) => ({ contractAddress: token, callData: lock.cancelCall }));
    assert.equal((await onAtom(atom, "cancel", { operations })).success, true);
    if (count === 1) await ask(node2, "b@node2", silver, "cancelLock", { lockId: legs[1].lock.lockId });
    assert.match((await onAtom(atom, "execute")).failureMessage, /NotPending/);
    await holds(gold, "a@node1", a);
    await holds(silver, "b@node2", b);
  }
});

test("a leg that was cancelled fails the swap, and the other leg stays", async () => {
  const [a, b] = [await balance(node1, gold, "a@node1"), await balance(node1, gold, "b@node2")];
  const legs = await prepared(5);
  const atom = await newAtom(legs);
  // With the client's ABIs alone: the owner becomes the delegate, and cancels in public.
  await delegate(legs[1], await node2.ask("ptx_resolveVerifier", ["b@node2", "ecdsa:secp256k1", "eth_address"]));
  const cancelled = await call("cancelLock", silver, legs[1].lock.cancelParams, "b@node2", node2);
  assert.equal(cancelled.success, true);
  await delegate(legs[0], atom);
  assert.match((await onAtom(atom, "execute")).failureMessage, /LockNotActive/);
  await holds(gold, "b@node2", b);
  await holds(gold, "a@node1", a - 5);
  const operations = [{ contractAddress: gold, callData: legs[0].lock.cancelCall }];
  assert.equal((await onAtom(atom, "cancel", { operations })).success, true);
  await holds(gold, "a@node1", a);
});
