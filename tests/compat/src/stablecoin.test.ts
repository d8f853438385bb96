// A stablecoin's life: deposit, KYC refused, KYC granted, transfer, withdraw. Its owners are registered by their keys.

import assert from "node:assert/strict";
import { test } from "node:test";
import { decompressed } from "./babyjubjub.js";
import { Client, type Json, until } from "./client.js";
import { abiOf, recorded } from "./recorded.js";

const node1 = new Client(process.env["ROTA_NODE1"] ?? "");
const node2 = new Client(process.env["ROTA_NODE2"] ?? "");
const erc20: { abi: Json[]; bytecode: string } = JSON.parse(process.env["ROTA_ERC20"] ?? "{}");

const COINS = ["domain:zeto:snark:babyjubjub", "iden3_pubkey_babyjubjub_compressed_0x"];
const SECP256K1 = "ecdsa:secp256k1";

const resolved = (node: Client, party: string, algorithm: string, type: string): Promise<string> =>
  node.ask("ptx_resolveVerifier", [party, algorithm, type]);

async function ended(node: Client, request: { method: string; params: Json[] }): Promise<Json> {
  return node.receipt(await node.ask(request.method, request.params));
}

async function call(to: string, abi: Json[], name: string, data: Json): Promise<Json> {
  const transaction = { type: "public", from: "a@node1", to, abi, function: name, data };
  return ended(node1, { method: "ptx_sendTransaction", params: [transaction] });
}

async function ask(to: string, abi: Json[], name: string, data: Json): Promise<Json> {
  const told = await node1.ask("ptx_call", [{ type: "public", to, abi, function: name, data }]);
  return Object.values(told)[0];
}

// As the registrar does it: the key as the owner's node tells it, its two numbers, and the public call.
async function register(token: string, node: Client, party: string): Promise<void> {
  const publicKey = decompressed(await resolved(node, party, COINS[0] ?? "", COINS[1] ?? ""));
  assert.equal(await ask(token, abiOf("IZetoKyc"), "isRegistered", { publicKey }), false);
  const done = await call(token, abiOf("IZetoKyc"), "register", { publicKey, data: "0x" });
  assert.equal(done.success, true, done.failureMessage);
  assert.equal(await ask(token, abiOf("IZetoKyc"), "isRegistered", { publicKey }), true);
}

async function balance(node: Client, token: string, account: string): Promise<string> {
  const asked = recorded("zeto.balanceOf", "ptx_call", { address: token });
  asked.params[0].from = account;
  asked.params[0].data.account = account;
  return (await node.ask(asked.method, asked.params)).totalBalance;
}

test("a stablecoin's owners deposit, are refused until they are registered, pay and withdraw", async () => {
  const deploy = recorded("ZetoFactory.newZeto.waitForDeploy", "ptx_sendTransaction");
  deploy.params[0].data.tokenName = "Zeto_AnonNullifierKyc";
  const token: string = (await ended(node1, deploy)).contractAddress;
  const made = { type: "public", from: "a@node1", abi: [], bytecode: erc20.bytecode, data: {} };
  const money: string = (await ended(node1, { method: "ptx_sendTransaction", params: [made] })).contractAddress;
  const owner = await resolved(node1, "a@node1", SECP256K1, "eth_address");
  await call(money, erc20.abi, "mint", [owner, "100"]);
  await call(money, erc20.abi, "approve", [token, "100"]);
  const set = recorded("zeto.setERC20(public)", "ptx_sendTransaction", { address: token });
  set.params[0].data.erc20 = money;
  assert.equal((await ended(node1, set)).success, true);
  const rootless = await ask(token, abiOf("IZetoKyc"), "getIdentitiesRoot", []);
  assert.equal(rootless, "0");

  const deposit = recorded("zeto.deposit", "ptx_sendTransaction", { address: token });
  const unknown = await ended(node1, deposit);
  assert.match(unknown.failureMessage, /a@node1 is not registered with 0x[0-9a-f]{40}.*must register its key 0x/);
  await register(token, node1, "a@node1");
  assert.equal((await ended(node1, deposit)).success, true);
  await until(async () => (await balance(node1, token, "a@node1")) === "5", "the coin of the deposit");

  const transfer = recorded("zeto.transfer", "ptx_sendTransaction", { address: token });
  const refused = await ended(node1, transfer);
  assert.match(refused.failureMessage, /b@node2 is not registered/);
  await register(token, node2, "b@node2");
  assert.equal((await ended(node1, transfer)).success, true);
  await until(async () => (await balance(node2, token, "b@node2")) === "5", "the coin of the payment");

  const withdraw = recorded("zeto.withdraw", "ptx_sendTransaction", { address: token });
  withdraw.params[0].from = "b@node2";
  assert.equal((await ended(node2, withdraw)).success, true);
  await until(async () => (await balance(node2, token, "b@node2")) === "0", "an empty account");
  const receiver = await resolved(node2, "b@node2", SECP256K1, "eth_address");
  assert.equal(await ask(money, erc20.abi, "balanceOf", [receiver]), "5");
});

test("keys of parties are told in every form that applications ask for", async () => {
  const own = await resolved(node2, "b@node2", COINS[0] ?? "", COINS[1] ?? "");
  assert.match(own, /^0x[0-9a-f]{64}$/);
  assert.equal(await resolved(node1, "b@node2", COINS[0] ?? "", COINS[1] ?? ""), own);
  const plain = await resolved(node2, "b@node2", SECP256K1, "hex_ecdsa_pubkey_uncompressed");
  assert.match(plain, /^[0-9a-f]{128}$/);
  assert.equal(await resolved(node2, "b@node2", SECP256K1, "hex_ecdsa_pubkey_uncompressed_0x"), "0x" + plain);
});
