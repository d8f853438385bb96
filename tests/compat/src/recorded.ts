// Requests as the SDK of existing applications sends them, recorded by helper. Placeholders stand for values of a network.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Json } from "./client.js";

const folder = process.env["ROTA_RECORDED"] ?? "";
const requests: Json[] = JSON.parse(readFileSync(join(folder, "requests.json"), "utf8"));
const abis: Record<string, Json[]> = JSON.parse(readFileSync(join(folder, "abis.json"), "utf8"));

const ADDRESS = "0x" + "11".repeat(20);
const WORD = "0x" + "22".repeat(32);

export interface Values {
  address?: string;
  word?: string;
  bytecode?: string;
}

export interface Request {
  method: string;
  params: Json[];
}

// The ABI of a contract that applications call themselves.
export function abiOf(name: string): Json[] {
  const found = abis[name];
  if (!found) throw new Error(`no ABI of ${name} is recorded`);
  return found;
}

export function recorded(helper: string, method: string, values: Values = {}): Request {
  const found = requests.find((each) => each.helper === helper && each.method === method);
  if (!found) throw new Error(`${helper} sends no ${method}`);
  return { method, params: found.params.map((each: Json) => filled(each, values)) };
}

function filled(value: Json, values: Values): Json {
  if (typeof value === "string") return text(value, values);
  if (Array.isArray(value)) return value.map((each) => filled(each, values));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, filled(each, values)]));
}

function text(value: string, values: Values): Json {
  const abi = /^<abi (\d+) entries>$/.exec(value);
  if (abi) return Object.values(abis).find((entries) => entries.length === Number(abi[1])) ?? value;
  if (value === "<bytecode>") return values.bytecode ?? value;
  if (value === ADDRESS) return values.address ?? value;
  return value === WORD ? (values.word ?? value) : value;
}
