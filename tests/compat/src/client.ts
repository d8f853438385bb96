// A node as existing applications reach it: JSON-RPC by POST on /, and subscriptions over a WebSocket.

const WAIT_MS = Number(process.env["ROTA_WAIT_MS"] ?? "60000");
const LOOK_MS = 50;

export type Json = any;

export class RpcError extends Error {
  constructor(readonly code: number, message: string) {
    super(message);
  }
}

export class Client {
  private lastId = 0;

  constructor(private readonly url: string) {}

  async ask(method: string, params: unknown[]): Promise<Json> {
    const body = JSON.stringify({ jsonrpc: "2.0", id: ++this.lastId, method, params });
    const headers = { Accept: "application/json", "Content-Type": "application/json" };
    const response = await fetch(this.url, { method: "POST", headers, body });
    const answer = (await response.json()) as Json;
    if (answer.error) throw new RpcError(answer.error.code, answer.error.message);
    return answer.result;
  }

  // Clients poll for a receipt until there is one.
  async receipt(transaction: string, full = false): Promise<Json> {
    const method = full ? "ptx_getTransactionReceiptFull" : "ptx_getTransactionReceipt";
    return await until(() => this.ask(method, [transaction]), `a receipt of ${transaction}`);
  }

  async succeeded(transaction: string, full = false): Promise<Json> {
    const receipt = await this.receipt(transaction, full);
    if (!receipt.success) throw new Error(`${transaction} failed: ${receipt.failureMessage}`);
    return receipt;
  }
}

export async function until<T>(ask: () => Promise<T | null | undefined>, wanted: string): Promise<T> {
  const end = Date.now() + WAIT_MS;
  while (Date.now() < end) {
    const found = await ask();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  throw new Error(`${wanted} did not come within ${WAIT_MS} ms`);
}

// A WebSocket that subscribes, hands on what is pushed, and acknowledges it.
export class Subscriber {
  private lastId = 0;
  private readonly messages: Json[] = [];

  private constructor(private readonly socket: WebSocket) {
    socket.addEventListener("message", (event) => this.messages.push(JSON.parse(String(event.data))));
  }

  static async open(url: string): Promise<Subscriber> {
    const socket = new WebSocket(url);
    await new Promise<void>((resolve, reject) => {
      socket.addEventListener("open", () => resolve());
      socket.addEventListener("error", () => reject(new Error(`no WebSocket at ${url}`)));
    });
    return new Subscriber(socket);
  }

  send(method: string, params: unknown[]): number {
    const id = ++this.lastId;
    this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return id;
  }

  async ask(method: string, params: unknown[]): Promise<Json> {
    const id = this.send(method, params);
    const answer = await this.take((message) => message.id === id, `the answer to ${method}`);
    if (answer.error) throw new RpcError(answer.error.code, answer.error.message);
    return answer.result;
  }

  async take(isWanted: (message: Json) => boolean, wanted: string): Promise<Json> {
    return await until(async () => {
      const place = this.messages.findIndex(isWanted);
      return place < 0 ? null : this.messages.splice(place, 1)[0];
    }, wanted);
  }

  close(): void {
    this.socket.close();
  }
}
