// The page as a whole: signing in, going from view to view, drawing at most once a frame.

import { basic, bearer, Connection } from "./connection.js";
import { announce, h, number, setAttribute, setText } from "./dom.js";
import { Model } from "./model.js";
import { AutomationView } from "./view_automation.js";
import { CommandsView } from "./view_commands.js";
import { ContractView } from "./view_contract.js";
import { NetworkView, problemsOf } from "./view_network.js";
import { NodeView } from "./view_node.js";
import { TransactionView } from "./view_transaction.js";

const TICK_MS = 1_000;
const STATUS_MS = 5_000;
const LIVE_TEXTS = { connecting: "connecting", live: "live", away: "not reached, trying again", locked: "sign in" };

const VIEWS = {
  network: NetworkView,
  contract: ContractView,
  transaction: TransactionView,
  automation: AutomationView,
  commands: CommandsView,
  node: NodeView,
};

class App {
  constructor() {
    this.main = document.getElementById("main");
    this.model = new Model(() => this.draw());
    this.connection = new Connection({
      onState: (state, text) => this.onState(state, text),
      onUpdate: (update) => this.model.push(update),
    });
    this.views = {};
    this.view = null;
    this.isDrawing = false;
    this.hasBeenLive = false;
    this.told = "";
    document.getElementById("leave").addEventListener("click", () => this.connection.signOut());
    addEventListener("hashchange", () => this.go());
    setInterval(() => this.tick(), TICK_MS);
    setInterval(() => this.refreshStatus(), STATUS_MS);
  }

  ask(method, ...params) {
    return this.connection.ask(method, params);
  }

  get roles() {
    return new Set(this.model.status?.caller.roles ?? []);
  }

  onState(state, text) {
    const lamp = document.getElementById("live");
    const before = lamp.dataset.state;
    lamp.dataset.state = state;
    setText(document.getElementById("live-text"), LIVE_TEXTS[state]);
    document.getElementById("leave").hidden = !this.connection.hasCredentials || state === "locked";
    if (state === "live") {
      this.model.nodeName = this.connection.nodeName;
      setText(document.getElementById("node-name"), this.connection.nodeName);
      document.title = `${this.connection.nodeName} – Rota`;
      if (this.hasBeenLive && before !== "live") announce("Connected again");
      this.hasBeenLive = true;
      this.refreshStatus();
      if (!this.view || this.isLocked) this.go();
      else this.view.back?.();
    }
    if (state === "locked") this.askCredentials(text);
    this.draw();
  }

  async refreshStatus() {
    if (this.connection.state !== "live") return;
    try {
      this.model.status = await this.ask("node_status");
      this.draw();
    } catch {
      // The next look tells; what is shown until then is what was.
    }
  }

  askCredentials(text) {
    this.isLocked = true;
    const token = h("input", { id: "token", type: "password", autocomplete: "off", required: true, spellcheck: "false" });
    const name = h("input", { id: "user", type: "text", autocomplete: "username", spellcheck: "false" });
    const flaw = h("p", { class: "flaw", role: "alert", id: "sign-in-flaw" }, text);
    const form = h(
      "form",
      { class: "card sign-in", "aria-labelledby": "sign-in-title" },
      h("h1", { id: "sign-in-title" }, "Sign in"),
      h("p", {}, "This node asks who you are. What you enter stays in this tab and is forgotten when it is closed."),
      h("label", { for: "user" }, "User name, if you have a password and not a token"),
      name,
      h("label", { for: "token" }, "Token or password"),
      token,
      flaw,
      h("button", { class: "strong", type: "submit" }, "Sign in"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      setText(flaw, "");
      const secret = token.value.trim();
      if (secret) this.connection.signIn(name.value ? basic(name.value, token.value) : bearer(secret));
    });
    this.view?.leave?.();
    this.view = null;
    this.main.replaceChildren(form);
    token.focus();
  }

  // The address says what is shown: #/contract/0x…
  go() {
    if (this.connection.state === "locked") return;
    this.isLocked = false;
    const [name, ...rest] = location.hash.replace(/^#\//, "").split("/");
    const kind = Object.hasOwn(VIEWS, name) ? name : "network";
    for (const link of document.querySelectorAll("nav.tabs a")) {
      setAttribute(link, "aria-current", link.getAttribute("href") === `#/${kind}` ? "page" : null);
    }
    const view = (this.views[kind] ??= new VIEWS[kind](this));
    const isAnother = this.view !== view;
    if (isAnother) this.view?.leave?.();
    this.view = view;
    view.enter?.(rest.map(decodeURIComponent));
    if (isAnother) {
      const isFirst = !this.main.firstChild;
      this.main.replaceChildren(view.element);
      scrollTo(0, 0);
      // A keyboard goes on at the content; at the first view it begins at the top.
      if (!isFirst) this.main.focus({ preventScroll: true });
    }
    this.draw();
  }

  draw() {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      setText(document.getElementById("height"), this.model.height ? `block ${number(this.model.height)}` : "");
      if (!document.hidden) this.view?.draw();
    });
  }

  // What is wrong is said once when it begins, and once when it is over; figures are not read out.
  tell() {
    const problems = problemsOf(this).map((each) => each.text);
    const key = problems.join("\n");
    if (key === this.told || (!key && !this.model.isComplete)) return;
    announce(problems.length ? problems.join(" ") : "All is well.");
    this.told = key;
  }

  tick() {
    if (this.hasBeenLive) this.tell();
    if (this.connection.state === "live" && !document.hidden) this.view?.tick?.();
    this.draw();
  }
}

const app = new App();
app.connection.begin();
