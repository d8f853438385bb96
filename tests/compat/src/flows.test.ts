// Flows of existing applications, with the requests that their SDK sends, against nodes that a pytest test has started.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Client, type Json, RpcError, Subscriber } from "./client.js";
import { recorded } from "./recorded.js";

const node1 = new Client(process.env["ROTA_NODE1"] ?? "");
const node2 = new Client(process.env["ROTA_NODE2"] ?? "");
const socket1 = process.env["ROTA_SOCKET1"] ?? "";
const bytecode = process.env["ROTA_BYTECODE"] ?? "";

async function newNoto(): Promise<string> {
  const deploy = recorded("NotoFactory.newNoto(basic).waitForDeploy", "ptx_sendTransaction");
  const receipt = await node1.succeeded(await node1.ask(deploy.method, deploy.params));
  return receipt.contractAddress;
}

async function addressOf(party: string): Promise<string> {
  const verifier = recorded("verifier.address", "ptx_resolveVerifier");
  return node1.ask(verifier.method, [party, ...verifier.params.slice(1)]);
}

test("a notary token is deployed, minted and paid with, and tells balances", async () => {
  const address = await newNoto();
  const mint = recorded("noto.mint", "ptx_sendTransaction", { address });
  mint.params[0].data.to = "a@node1";
  await node1.succeeded(await node1.ask(mint.method, mint.params));
  const transfer = recorded("noto.transfer", "ptx_sendTransaction", { address });
  const paid = await node1.succeeded(await node1.ask(transfer.method, transfer.params), true);
  assert.equal(paid.domain, "noto");
  const [from, to] = [await addressOf("a@node1"), await addressOf("b@node2")];
  const moved = [{ from, fromParty: "a@node1", to, toParty: "b@node2", amount: "10" }];
  assert.deepEqual(paid.domainReceipt.transfers, moved);
  assert.equal(paid.domainReceipt.sender, from);
  const [coin] = paid.domainReceipt.states.outputs;
  assert.deepEqual([coin.data.owner, coin.data.ownerParty], [to, "b@node2"]);
  const balance = recorded("noto.balanceOf", "ptx_call", { address });
  assert.equal((await node1.ask(balance.method, balance.params)).totalBalance, "90");
  const [round] = await node1.ask("ptx_queryPublicTransactions", [
    { limit: 1, eq: [{ field: "transaction", value: paid.id }] },
  ]);
  assert.equal((await node1.ask("ptx_getPublicTransactionByHash", [round.transactionHash])).to, address);
  const told = await node1.ask("domain_invokeRPC", [address, "noto_balanceOf", { account: "b@node2" }]);
  assert.equal(told.totalBalance, "10");
});

test("coins are found by their owner's address, and named by an id of 32 bytes", async () => {
  const address = await newNoto();
  const mint = recorded("noto.mint", "ptx_sendTransaction", { address });
  mint.params[0].data.to = "b@node2";
  await node1.succeeded(await node1.ask(mint.method, mint.params));
  const schemas = await node2.ask("pstate_listSchemas", ["noto"]);
  const schema = schemas.find((each: any) => each.signature.includes("NotoCoin")).id;
  const owner = await addressOf("b@node2");
  const coins = (value: string) =>
    node2.ask("pstate_queryContractStates", [
      "noto",
      address,
      schema,
      { limit: 10, eq: [{ field: "owner", value }] },
      "all",
    ]);
  let found = await coins(owner);
  while (found.length === 0) found = await coins(owner);
  const [coin] = found;
  assert.match(coin.id, /^0x[0-9a-f]{64}$/);
  assert.deepEqual([coin.data.owner, coin.data.ownerParty, coin.data.amount], [owner, "b@node2", "100"]);
  assert.deepEqual(await coins("b@node2"), found);
  assert.deepEqual(await coins(await addressOf("a@node1")), []);
  const sent = await node2.ask("pstate_transferPrivateState", ["noto", coin.id, "a@node1"]);
  assert.match(sent, /^[0-9a-f-]{36}$/);
});

test("a privacy group is created, and a private contract in it is deployed, called and asked", async () => {
  const create = recorded("PenteFactory.newPrivacyGroup.waitForDeploy", "pgroup_createGroup");
  const group = await node1.ask(create.method, create.params);
  await node1.succeeded(group.genesisTransaction);
  const resume = recorded("PenteFactory.resumePrivacyGroup", "pgroup_getGroupById", { word: group.id });
  assert.equal((await node2.ask(resume.method, resume.params)).genesisTransaction, group.genesisTransaction);
  const values = { word: group.id, bytecode };
  const deploy = recorded("group.deploy.waitForDeploy", "pgroup_sendTransaction", values);
  const deployed = await node1.succeeded(await node1.ask(deploy.method, deploy.params), true);
  const address: string = deployed.domainReceipt.receipt.contractAddress;
  const store = recorded("contract.sendTransaction", "pgroup_sendTransaction", { ...values, address });
  await node1.succeeded(await node1.ask(store.method, store.params));
  const call = recorded("contract.call", "pgroup_call", { ...values, address });
  assert.deepEqual(Object.values(await node1.ask(call.method, call.params)), ["1"]);
  await assert.rejects(node1.ask("pgroup_invokeRPC", ["pente", group.id, "eth_call", []]), (error: RpcError) => {
    assert.equal(error.code, -32602);
    return error.message.includes("must be one of pente_call");
  });
});

function functionOf(name: string, inputs: [string, string][]): unknown {
  return { type: "function", name, inputs: inputs.map(([type, name]) => ({ type, name })), outputs: [] };
}

test("a private stablecoin: its hook refuses who is not on the list, and carries out who is", async () => {
  const guard = JSON.parse(readFileSync(process.env["ROTA_GUARD"] ?? "", "utf-8"));
  const constructor = guard.abi.find((entry: Json) => entry.type === "constructor");
  const members = ["a@node1", "b@node2"];
  const configuration = { externalCallsEnabled: "true", evmVersion: "shanghai" };
  const group = await node1.ask("pgroup_createGroup", [{ domain: "pente", members, configuration }]);
  const { contractAddress: publicAddress } = await node1.succeeded(group.genesisTransaction);
  const inGroup = { domain: "pente", group: group.id, from: "a@node1" };
  const [notary, holder] = [await addressOf("a@node1"), await addressOf("b@node2")];
  const deployed = await node1.succeeded(
    await node1.ask("pgroup_sendTransaction", [
      { ...inGroup, bytecode: guard.bytecode, function: constructor, input: [notary, "50"] },
    ]),
    true,
  );
  const privateAddress: string = deployed.domainReceipt.receipt.contractAddress;
  const tell = async (name: string, inputs: [string, string][], input: unknown[]): Promise<void> => {
    const call = { ...inGroup, to: privateAddress, function: functionOf(name, inputs), input };
    await node1.succeeded(await node1.ask("pgroup_sendTransaction", [call]));
  };
  const create = recorded("NotoFactory.newNoto(hooks)", "ptx_sendTransaction");
  const privateGroup = { salt: group.id, members };
  create.params[0].data.options.hooks = { publicAddress, privateAddress, privateGroup };
  const token: string = (await node1.succeeded(await node1.ask(create.method, create.params))).contractAddress;
  await tell("setToken", [["address", "token"]], [token]);

  const mint = recorded("noto.mint", "ptx_sendTransaction", { address: token });
  mint.params[0].data.to = "a@node1";
  const refused = await node1.receipt(await node1.ask(mint.method, mint.params));
  assert.deepEqual([refused.success ?? false, refused.failureMessage], [false, "the receiver is not on the list"]);
  for (const account of [notary, holder]) await tell("list", [["address", "account"], ["bool", "allowed"]], [account, true]);
  await node1.succeeded(await node1.ask(mint.method, mint.params));

  const transfer = recorded("noto.transfer", "ptx_sendTransaction", { address: token });
  const paid = await node1.succeeded(await node1.ask(transfer.method, transfer.params), true);
  assert.deepEqual(paid.domainReceipt.hooks, { publicAddress, privateAddress });
  const [dispatch] = await node1.ask("ptx_queryChainedDispatches", [
    { limit: 1, eq: [{ field: "transactionID", value: paid.id }] },
  ]);
  assert.deepEqual(paid.carriedBy, [dispatch.chainedTransactionID]);
  assert.deepEqual(await node1.ask("ptx_getChainedDispatch", [dispatch.id]), dispatch);
  const carrying = await node1.succeeded(dispatch.chainedTransactionID, true);
  assert.equal(carrying.transactionHash, paid.transactionHash);
  assert.deepEqual(carrying.carries, [paid.id]);

  transfer.params[0].data.amount = "41";
  const over = await node1.receipt(await node1.ask(transfer.method, transfer.params));
  assert.equal(over.failureMessage, "the payment exceeds the daily limit");
  await tell("startDay", [], []);
  await node1.succeeded(await node1.ask(transfer.method, transfer.params));
  const balance = recorded("noto.balanceOf", "ptx_call", { address: token });
  assert.equal((await node1.ask(balance.method, balance.params)).totalBalance, "49");
});

test("receipts come over a WebSocket until they are acknowledged", async () => {
  const name = `compat-${Date.now()}`;
  await node1.ask("ptx_createReceiptListener", [{ name, filters: { type: "private", domain: "noto" } }]);
  const address = await newNoto();
  const socket = await Subscriber.open(socket1);
  const subscription = await socket.ask("ptx_subscribe", ["receipts", name]);
  const addresses = new Set<string>();
  while (!addresses.has(address)) {
    const pushed = await socket.take(
      (message) => message.method === "ptx_subscription" && message.params.subscription === subscription,
      `the receipt of ${address}`,
    );
    for (const receipt of pushed.params.result.receipts) addresses.add(receipt.contractAddress);
    socket.send("ptx_ack", [subscription]);
  }
  assert.equal(await socket.ask("ptx_unsubscribe", [subscription]), true);
  socket.close();
});
