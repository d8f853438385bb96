// The way to the node: questions by POST until we know who we are, then everything over one WebSocket of this place.
//
// A browser does not tell a page why a WebSocket was refused. So before each attempt the node is asked its name by POST:
// no answer means that it is away, and is tried again after a pause that doubles; a refusal means wrong credentials, and
// is not tried again before its user has given others. Credentials are kept in sessionStorage and in no other place.

const PAUSE_MIN_MS = 250;
const PAUSE_MAX_MS = 8_000;
const QUESTION_TIMEOUT_MS = 20_000;
const WAITING_MAX = 256;
const SILENCE_MAX_MS = 15_000;
const LOOK_MS = 5_000;
const INTERVAL_MS = 500;
const NOT_AUTHORISED = -32_000;
const KEPT = "rota.authorization";

export class Refused extends Error {
  constructor(error) {
    super(error.message);
    this.code = error.code;
  }
}

export class Away extends Error {}

// `onState` is told: connecting, live, away, locked (credentials are needed). `onUpdate` gets each update of the feed.
export class Connection {
  constructor({ onState, onUpdate }) {
    this.onState = onState;
    this.onUpdate = onUpdate;
    this.state = "connecting";
    this.nodeName = "";
    this.socket = null;
    this.waiting = new Map();
    this.subscription = "";
    this.opened = "";
    this.nextId = 1;
    this.pauseMs = PAUSE_MIN_MS;
    this.timer = 0;
    this.heardAtMs = 0;
    this.authorization = sessionStorage.getItem(KEPT) ?? "";
    setInterval(() => this.look(), LOOK_MS);
  }

  get hasCredentials() {
    return this.authorization !== "";
  }

  signIn(authorization) {
    this.authorization = authorization;
    this.pauseMs = PAUSE_MIN_MS;
    return this.begin();
  }

  signOut() {
    this.authorization = "";
    sessionStorage.removeItem(KEPT);
    this.drop();
    this.tell("locked", "");
  }

  async begin() {
    clearTimeout(this.timer);
    this.drop();
    try {
      this.nodeName = await this.post("transport_nodeName", []);
    } catch (error) {
      if (error instanceof Refused && error.code === NOT_AUTHORISED) {
        const text = this.hasCredentials ? error.message : "";
        this.authorization = "";
        sessionStorage.removeItem(KEPT);
        this.tell("locked", text);
      } else {
        this.later();
      }
      return;
    }
    if (this.hasCredentials) sessionStorage.setItem(KEPT, this.authorization);
    this.open();
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const protocols = ["rota.v1"];
    if (this.hasCredentials) protocols.push(`rota.authorization.${base64url(this.authorization)}`);
    const socket = new WebSocket(`${scheme}//${location.host}/live`, protocols);
    this.socket = socket;
    socket.onopen = async () => {
      try {
        this.heardAtMs = Date.now();
        this.subscription = await this.ask("seq_subscribe", [INTERVAL_MS]);
        this.tellOpened();
        this.pauseMs = PAUSE_MIN_MS;
        this.tell("live", "");
      } catch (error) {
        this.tell("away", error.message);
        socket.close();
      }
    };
    socket.onmessage = (message) => this.hear(message.data);
    socket.onclose = () => {
      if (this.socket === socket) this.later();
    };
  }

  // Under load the feed tells of some transactions one by one. Of the one that is looked at, everything; "" is none.
  follow(id) {
    if (id === this.opened) return;
    this.opened = id;
    this.tellOpened();
  }

  tellOpened() {
    if (this.subscription) this.ask("seq_follow", [this.subscription, this.opened ? [this.opened] : []]).catch(() => {});
  }

  hear(text) {
    this.heardAtMs = Date.now();
    const said = JSON.parse(text);
    if (said.method === "seq_subscription") {
      this.onUpdate(said.params.result);
      return;
    }
    const asked = this.waiting.get(said.id);
    if (!asked) return;
    this.waiting.delete(said.id);
    clearTimeout(asked.timer);
    if (said.error) asked.reject(new Refused(said.error));
    else asked.resolve(said.result);
  }

  // An answer of the node. `Refused` says what it objects to, `Away` that there is none.
  ask(method, params = []) {
    return new Promise((resolve, reject) => {
      if (!this.socket || this.socket.readyState !== WebSocket.OPEN) {
        reject(new Away("the node is not reached at present"));
        return;
      }
      if (this.waiting.size >= WAITING_MAX) {
        reject(new Away("too many questions wait for their answers"));
        return;
      }
      const id = this.nextId++;
      const timer = setTimeout(() => {
        this.waiting.delete(id);
        reject(new Away(`${method} was not answered`));
      }, QUESTION_TIMEOUT_MS);
      this.waiting.set(id, { resolve, reject, timer });
      this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  async post(method, params) {
    const headers = { "Content-Type": "application/json" };
    if (this.hasCredentials) headers.Authorization = this.authorization;
    let answer;
    try {
      const response = await fetch("/", {
        method: "POST",
        headers,
        body: JSON.stringify({ jsonrpc: "2.0", id: 0, method, params }),
        signal: AbortSignal.timeout(QUESTION_TIMEOUT_MS),
      });
      answer = await response.json();
    } catch (error) {
      throw new Away(error.message);
    }
    if (answer.error) throw new Refused(answer.error);
    return answer.result;
  }

  // A connection that is cut without a word looks open: a question that is not answered tells.
  look() {
    if (this.state !== "live" || Date.now() - this.heardAtMs < LOOK_MS) return;
    if (Date.now() - this.heardAtMs > SILENCE_MAX_MS) this.socket?.close();
    else this.ask("transport_nodeName").catch(() => {});
  }

  later() {
    this.drop();
    this.tell("away", "");
    this.timer = setTimeout(() => this.begin(), this.pauseMs);
    this.pauseMs = Math.min(this.pauseMs * 2, PAUSE_MAX_MS);
  }

  drop() {
    const socket = this.socket;
    this.socket = null;
    this.subscription = "";
    socket?.close();
    for (const { reject, timer } of this.waiting.values()) {
      clearTimeout(timer);
      reject(new Away("the connection was lost"));
    }
    this.waiting.clear();
  }

  tell(state, text) {
    this.state = state;
    this.onState(state, text);
  }
}

export function bearer(token) {
  return `Bearer ${token}`;
}

export function basic(name, password) {
  return `Basic ${btoa(String.fromCharCode(...new TextEncoder().encode(`${name}:${password}`)))}`;
}

function base64url(text) {
  const encoded = btoa(String.fromCharCode(...new TextEncoder().encode(text)));
  return encoded.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
