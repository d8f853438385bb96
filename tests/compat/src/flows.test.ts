// Flows of existing applications, with the requests that their SDK sends, against nodes that a pytest test has started.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, RpcError, Subscriber } from "./client.js";
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
