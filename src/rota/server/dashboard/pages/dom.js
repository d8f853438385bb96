// Elements, numbers and times as the page writes them. Nothing here sets HTML from text: what a node says is text.

const SVG = "http://www.w3.org/2000/svg";

// An element with attributes, handlers (onclick) and children; what is null or false is left out.
export function h(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Sets a text only when it differs, so that nothing is laid out anew and no screen reader is told twice.
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

export function setAttribute(element, name, value) {
  if (value === null || value === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, String(value));
  }
}

// Keeps the children of a parent in step with items: one element for each key, made once and then refreshed.
export function keyed(parent, items, keyOf, make, refresh) {
  const kept = (parent.keptChildren ??= new Map());
  const wanted = new Set();
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    wanted.add(key);
    let element = kept.get(key);
    if (!element) {
      element = make(item);
      kept.set(key, element);
    }
    refresh?.(element, item);
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
  for (const [key, element] of kept) {
    if (!wanted.has(key)) {
      element.remove();
      kept.delete(key);
    }
  }
}

const WHOLE = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export const number = (value) => (value === null || value === undefined ? "–" : WHOLE.format(value));
export const clock = (atMs) => (atMs ? CLOCK.format(atMs) : "–");
export const date = (atMs) => (atMs ? DATE.format(atMs) : "–");
export const msOf = (text) => (text ? Date.parse(text) : 0);

export function duration(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 0) return "0 ms";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
  if (ms < 172_800_000) return `${Math.floor(ms / 3_600_000)} h ${Math.floor((ms % 3_600_000) / 60_000)} min`;
  return `${Math.floor(ms / 86_400_000)} days`;
}

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = count;
  let unit = 0;
  while (value >= 1_024 && unit < units.length - 1) {
    value /= 1_024;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export const short = (text) => (text && text.length > 14 ? `${text.slice(0, 8)}…${text.slice(-4)}` : text || "–");

// States come as Ready_For_Dispatch and EndorsementGathering; people read words.
export const words = (state) =>
  state
    .replaceAll("_", " ")
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase();

// A button that copies a long text that is shown short.
export function copyable(text, shown = short(text)) {
  const button = h("button", { type: "button", class: "copy", title: text, "aria-label": `${text}, copy` }, shown);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      announce("Copied");
    } catch {
      getSelection()?.selectAllChildren(button);
    }
  });
  return button;
}

// Says something to a screen reader, once.
export function announce(text) {
  const place = document.getElementById("announcer");
  if (place) place.textContent = text;
}

// Asks before something is done. Resolves to whether it is wanted.
export function confirmed(title, text, action) {
  return new Promise((resolve) => {
    const dialog = h(
      "dialog",
      { class: "ask", "aria-labelledby": "ask-title", "aria-describedby": "ask-text" },
      h("h2", { id: "ask-title" }, title),
      h("p", { id: "ask-text" }, text),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", id: "ask-no", onclick: () => dialog.close("no") }, "Leave it"),
        h("button", { type: "button", class: "strong", id: "ask-yes", onclick: () => dialog.close("yes") }, action),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector("#ask-no").focus();
  });
}

export function section(title, ...children) {
  const id = `s-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
