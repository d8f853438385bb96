// A bond's life as applications have it: cash and a bond whose token has a hook in a group of issuer and custodian; the
// investor and the custodian agree in a group of their own, and an atom settles both legs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, type Json, until } from "./client.js";
import { recorded } from "./recorded.js";

const node1 = new Client(process.env["ROTA_NODE1"] ?? "");
const node2 = new Client(process.env["ROTA_NODE2"] ?? "");
const artifacts: Record<string, { abi: Json[]; bytecode: string }> = JSON.parse(process.env["ROTA_BOND"] ?? "{}");
const NO_DATA = "0x";
const [BANK, CUSTODIAN, ISSUER, INVESTOR] = ["a@node1", "custodian@node1", "issuer@node2", "investor@node2"] as const;

const nodeOf = (party: string): Client => (party.endsWith("@node1") ? node1 : node2);

async function addressOf(party: string): Promise<string> {
  return nodeOf(party).ask("ptx_resolveVerifier", [party, "ecdsa:secp256k1", "eth_address"]);
}

function entry(contract: string, name: string): Json {
  const found = artifacts[contract]?.abi.find((each) => (each.name ?? each.type) === name);
  if (!found) throw new Error(`${contract} has no ${name}`);
  return found;
}

class Group {
  private constructor(readonly id: string, readonly address: string) {}

  static async create(members: string[]): Promise<Group> {
    // Creating an atom stores both calls, which is more than the default bound of a call.
    const configuration = { externalCallsEnabled: "true", externalCallGasMax: "2000000", evmVersion: "shanghai" };
    const made = await node1.ask("pgroup_createGroup", [{ domain: "pente", members, configuration }]);
    const { contractAddress } = await node1.succeeded(made.genesisTransaction);
    await until(() => node2.ask("pgroup_getGroupById", ["pente", made.id]), "the group at the other member's node");
    return new Group(made.id, contractAddress);
  }

  async deploy(from: string, contract: string, input: unknown[]): Promise<string> {
    const bytecode = artifacts[contract]?.bytecode;
    const receipt = await this.send(from, { bytecode, function: entry(contract, "constructor"), input });
    return receipt.domainReceipt.receipt.contractAddress;
  }

  async invoke(from: string, to: string, contract: string, name: string, input: unknown[] = []): Promise<Json> {
    return this.send(from, { to, function: entry(contract, name), input });
  }

  async call(from: string, to: string, contract: string, name: string, input: unknown[] = []): Promise<Json> {
    const asked = { domain: "pente", group: this.id, from, to, function: entry(contract, name), input };
    return Object.values(await nodeOf(from).ask("pgroup_call", [asked]))[0];
  }

  private async send(from: string, what: Json): Promise<Json> {
    const node = nodeOf(from);
    const sent = { domain: "pente", group: this.id, from, ...what };
    return node.succeeded(await node.ask("pgroup_sendTransaction", [sent]), true);
  }
}

// A private transaction of a token: its receipt, whatever it says.
async function sent(from: string, token: string, name: string, data: Json): Promise<Json> {
  const node = nodeOf(from);
  const { params } = recorded("noto.lock", "ptx_sendTransaction", { address: token });
  const request = { ...params[0], from, function: name, data: { data: NO_DATA, ...data } };
  await until(() => node.ask("ptx_call", [{ ...request, function: "name", data: {} }]).catch(() => null), "the token");
  return node.receipt(await node.ask("ptx_sendTransaction", [request]), true);
}

async function done(from: string, token: string, name: string, data: Json): Promise<Json> {
  const receipt = await sent(from, token, name, data);
  assert.equal(receipt.success, true, `${name}: ${receipt.failureMessage}`);
  return receipt.domainReceipt;
}

async function holds(token: string, account: string, amount: string): Promise<void> {
  const asked = recorded("noto.balanceOf", "ptx_call", { address: token });
  asked.params[0].data.account = account;
  const balance = async (): Promise<Json> => (await node1.ask(asked.method, asked.params)).totalBalance;
  await until(async () => ((await balance()) === amount ? true : null), `${account}: ${amount}`);
}

async function publicly(from: string, what: Json): Promise<Json> {
  const node = nodeOf(from);
  const receipt = await node.receipt(await node.ask("ptx_sendTransaction", [{ type: "public", from, ...what }]));
  assert.equal(receipt.success, true, receipt.failureMessage);
  return receipt;
}

test("a bond is issued, subscribed, paid, distributed and settled", async () => {
  const create = recorded("NotoFactory.newNoto(basic).waitForDeploy", "ptx_sendTransaction");
  const cash: string = (await node1.succeeded(await node1.ask(create.method, create.params))).contractAddress;
  await done(BANK, cash, "mint", { to: INVESTOR, amount: 1000 });

  // Issue: the custodian is the notary of the bond's token, and its private tracker decides.
  const issuing = await Group.create([ISSUER, CUSTODIAN]);
  const [custodian, investor] = [await addressOf(CUSTODIAN), await addressOf(INVESTOR)];
  const tracker = await issuing.deploy(ISSUER, "BondTracker", [custodian]);
  const hooked = recorded("NotoFactory.newNoto(hooks)", "ptx_sendTransaction");
  hooked.params[0].from = CUSTODIAN;
  hooked.params[0].data.notary = CUSTODIAN;
  const privateGroup = { salt: issuing.id, members: [ISSUER, CUSTODIAN] };
  hooked.params[0].data.options.hooks = { publicAddress: issuing.address, privateAddress: tracker, privateGroup };
  const bond: string = (await node1.succeeded(await node1.ask(hooked.method, hooked.params))).contractAddress;
  const elsewhere = await sent(CUSTODIAN, bond, "mint", { to: INVESTOR, amount: 100 });
  assert.equal(elsewhere.failureMessage, "a bond is issued to its custodian");
  await done(CUSTODIAN, bond, "mint", { to: CUSTODIAN, amount: 100 });

  const factory = (await publicly(CUSTODIAN, { ...artifacts["AtomFactory"], data: {} })).contractAddress;
  const sale = { from: CUSTODIAN, recipients: [{ to: INVESTOR, amount: 10 }], unlockData: NO_DATA };
  const early = await sent(CUSTODIAN, bond, "createTransferLock", sale);
  assert.equal(early.failureMessage, "the bond is not distributed yet");
  await issuing.invoke(CUSTODIAN, tracker, "BondTracker", "beginDistribution");
  const stranger = await sent(CUSTODIAN, bond, "createTransferLock", sale);
  assert.equal(stranger.failureMessage, "the receiver is no investor of this bond");
  await issuing.invoke(CUSTODIAN, tracker, "BondTracker", "addInvestor", [investor]);

  // Subscribe, and prepare the payment.
  const subscribing = await Group.create([INVESTOR, CUSTODIAN]);
  const wanted = [custodian, factory, "10"];
  const subscription = await subscribing.deploy(INVESTOR, "BondSubscription", wanted);
  const paying = { from: INVESTOR, recipients: [{ to: CUSTODIAN, amount: 950 }], unlockData: NO_DATA };
  const payment = (await done(INVESTOR, cash, "createTransferLock", paying)).lockInfo;
  const paid = [cash, payment.unlockCall];
  await subscribing.invoke(INVESTOR, subscription, "BondSubscription", "preparePayment", paid);

  // Distribute: the units are locked for the investor, about which the tracker decides, and the private contract has an
  // atom made of both legs.
  const units = (await done(CUSTODIAN, bond, "createTransferLock", sale)).lockInfo;
  const delivered = [bond, units.unlockCall];
  await subscribing.invoke(CUSTODIAN, subscription, "BondSubscription", "prepareBond", delivered);
  const distributed = await subscribing.invoke(CUSTODIAN, subscription, "BondSubscription", "distribute");
  const events = await node1.ask("bidx_decodeTransactionEvents", [
    distributed.transactionHash,
    artifacts["AtomFactory"]?.abi,
    "",
  ]);
  const atom: string = events.find((each: Json) => each.soliditySignature?.includes("AtomDeployed")).data.addr;
  for (const [from, token, lock] of [[INVESTOR, cash, payment], [CUSTODIAN, bond, units]] as const) {
    await done(from, token, "delegateLock", { lockId: lock.lockId, delegate: atom });
  }

  // Settle: both legs or none, by any account. The tracker is told, because no hook decides about what an atom does.
  await publicly(INVESTOR, { to: atom, abi: artifacts["Atom"]?.abi, function: "execute", data: {} });
  await holds(cash, CUSTODIAN, "950");
  await holds(cash, INVESTOR, "50");
  await holds(bond, INVESTOR, "10");
  await holds(bond, CUSTODIAN, "90");
  const tracked = (account: string) => issuing.call(CUSTODIAN, tracker, "BondTracker", "balanceOf", [account]);
  await until(async () => ((await tracked(investor)) === "10" ? true : null), "the investor in the tracker");
  assert.equal(await tracked(custodian), "90");
});
