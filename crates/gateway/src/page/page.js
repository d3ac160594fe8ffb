// The page: the models, the settings, and the conversation.

import { chunks, keepKey, keyOfTab, send, whenKeyIsWanted } from "./page/api.js";
import { Entry, Setup, addDelta, readTools, wholeCalls, wrongObject } from "./page/conversation.js";
import { element } from "./page/dom.js";
import { ReplyView, partsOf, sendOnEnter, showMessage, updateBranches } from "./page/turn.js";

const at = (id) => document.getElementById(id);
const [log, message, status, stop] = ["log", "message", "status", "stop"].map(at);

/** The messages begin after it. */
let root = new Entry(null, "root", null);
/** The entries that are on the page, in order. */
let shown = [];
/** The number of entries before those. */
let from = 0;
/** What stops the reply that is coming, or null. */
let running = null;
/**
 * What follows the end when the log or a message changes its size. A message that turns out smaller than its place
 * was moves the page up, even if the log, which fills the window, keeps its size.
 */
const sizes = new ResizeObserver(keepEnd);

const acts = { edit, again, answer, choose };

start();

function start() {
  // A small screen shows the conversation first.
  if (window.matchMedia("(max-width: 48rem)").matches) at("setup").open = false;
  whenKeyIsWanted(askForKey);
  at("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    say();
  });
  sendOnEnter(message, say);
  message.addEventListener("keydown", editLast);
  stop.addEventListener("click", stopReply);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing && !at("key-dialog").open) stopReply();
  });
  at("settings").addEventListener("submit", (event) => event.preventDefault());
  at("tools").addEventListener("input", checkTools);
  at("more").addEventListener("input", checkMore);
  at("earlier").addEventListener("click", showEarlier);
  at("new-chat").addEventListener("click", startAnew);
  at("key").addEventListener("click", async () => {
    if (await askForKey(null, keyOfTab())) loadModels();
  });
  followEnd();
  checkTools();
  checkMore();
  message.focus();
  loadModels();
}

// Models and settings.

async function loadModels() {
  const host = at("models");
  try {
    const { data } = await (await send("v1/models")).json();
    const chosen = document.querySelector("[name=model]:checked")?.value ?? data[0]?.id;
    host.replaceChildren(...data.map(({ id }) => {
      const radio = element("input", { type: "radio", name: "model", value: id, checked: id === chosen });
      return element("label", {}, radio, " ", id);
    }));
  } catch (fault) {
    const retry = element("button", { type: "button", onclick: loadModels }, "Load models again");
    host.replaceChildren(element("p", { className: "wrong" }, fault.message), retry);
  }
}

function checkTools() {
  const { wrong, names } = readTools(at("tools").value);
  tell("tools", wrong ?? (names.length === 0 ? "No tools" : `Offered: ${names.join(", ")}`), wrong !== undefined);
  if (wrong !== undefined) return false;
  const choice = at("tool_choice");
  const value = choice.value;
  const options = names.map((name) => element("option", { value: `function:${name}` }, `function ${name}`));
  choice.replaceChildren(...["auto", "none", "required"].map((name) => element("option", {}, name)), ...options);
  if ([...choice.options].some((option) => option.value === value)) choice.value = value;
  return true;
}

function checkMore() {
  const wrong = wrongObject(at("more").value);
  tell("more", wrong ?? "", wrong !== null);
  return wrong === null;
}

function tell(field, text, isWrong) {
  at(field).ariaInvalid = `${isWrong}`;
  const said = at(`${field}-said`);
  said.textContent = text;
  said.classList.toggle("wrong", isWrong);
}

/** Returns what the next request says apart from its messages, or null if a setting is wrong. */
function readSetup() {
  const numbers = ["temperature", "max_tokens", "seed"].map(at);
  const wrong = numbers.find((field) => !field.validity.valid);
  const isReady = wrong === undefined && checkTools() && checkMore();
  if (!isReady) {
    const field = wrong ?? document.querySelector("#settings [aria-invalid=true]");
    at("setup").open = true;
    field.focus();
    tellStatus("A setting is wrong. The message was not sent.");
    wrong?.reportValidity();
    return null;
  }
  const fields = { stream: true, stream_options: { include_usage: true } };
  const model = document.querySelector("[name=model]:checked")?.value;
  if (model !== undefined) fields.model = model;
  for (const field of numbers) if (field.value !== "") fields[field.id] = Number(field.value);
  const tools = at("tools").value.trim();
  const choice = at("tool_choice").value;
  if (tools !== "" && at("one_call").checked) fields.parallel_tool_calls = false;
  if (tools !== "" && choice !== "auto") {
    const name = choice.startsWith("function:") ? choice.slice("function:".length) : null;
    fields.tool_choice = name === null ? choice : { type: "function", function: { name } };
  }
  return new Setup({ fields, system: at("system").value, tools, more: at("more").value });
}

// The conversation.

/** Sends what is in the message box. */
function say() {
  if (message.value === "") return;
  if (running !== null) return tellStatus("A reply is running. Press Esc to stop it.");
  const setup = readSetup();
  if (setup === null) return;
  const entry = new Entry(root.leaf(), "user", { role: "user", content: message.value });
  message.value = "";
  reply(entry, setup);
}

/** Goes on from another text of an earlier message. */
function edit(entry, text) {
  const setup = readSetup();
  if (setup === null) return;
  stopReply();
  reply(new Entry(entry.parent, entry.role, { ...entry.message, content: text }), setup);
}

/** Asks for another reply. */
function again(entry) {
  const setup = readSetup();
  if (setup === null) return;
  stopReply();
  reply(entry.parent, setup);
}

/** Sends the results of the calls of a reply. */
function answer(entry, results) {
  const setup = readSetup();
  if (setup === null) return;
  stopReply();
  const last = results.reduce((before, result) => new Entry(before, "tool", result), entry);
  message.focus();
  reply(last, setup);
}

/** Shows another branch. */
function choose(entry, by) {
  const { parent } = entry;
  parent.chosen = parent.children[parent.children.indexOf(entry) + by];
  stopReply();
  show();
  parent.chosen.element.querySelector(".branches button:enabled")?.focus();
}

function startAnew() {
  stopReply();
  root = new Entry(null, "root", null);
  show();
  tellStatus("A new chat.");
  message.focus();
}

/** Asks the model for the message after an entry, and shows it while it comes. */
async function reply(parent, setup) {
  const entry = new Entry(parent, "assistant", null);
  entry.setup = setup;
  const view = new ReplyView(entry, acts);
  const length = entry.path().length;
  if (length - from > 2 * SOME) from = length - SOME;
  show();
  follows += 1;
  scrollToEnd();
  const own = new AbortController();
  running = own;
  stop.hidden = false;
  tellStatus("The model replies.");
  const said = { role: "assistant", content: "" };
  const begun = performance.now();
  const since = () => (performance.now() - begun) / 1000;
  const facts = { finish: "cut off" };
  let fault = null;
  try {
    const body = setup.body(parent.messages());
    const response = await send("v1/chat/completions", { body, signal: own.signal });
    readHeaders(response.headers, facts);
    for await (const { choices, usage } of chunks(response)) {
      if (usage) readUsage(usage, facts);
      for (const { delta, finish_reason: finish } of choices) {
        if (finish) facts.finish = finish;
        if (!delta.content && !delta.reasoning_content && !delta.tool_calls) continue;
        facts.first ??= since();
        addDelta(said, delta);
        view.push(delta, said);
      }
    }
  } catch (error) {
    if (error.name === "AbortError") facts.finish = "stopped";
    else fault = error;
  }
  facts.seconds = since();
  const calls = wholeCalls(said, facts.finish);
  if (said.content !== "" || calls.length > 0) {
    entry.message = { ...said, tool_calls: calls };
    if (calls.length === 0) delete entry.message.tool_calls;
  }
  view.end({ facts, fault, calls });
  // What ends a reply is laid out only in the next frames.
  requestAnimationFrame(() => setTimeout(() => { follows -= 1; }, SETTLED));
  if (running === own) {
    running = null;
    stop.hidden = true;
    sayEnd(entry, facts, fault);
  }
}

function readHeaders(headers, facts) {
  facts.defaults = headers.get("x-rolecall-defaults");
  const session = headers.get("x-rolecall-session") ?? "";
  const pairs = Object.fromEntries(session.split("; ").map((pair) => pair.split("=")));
  if (pairs.history === undefined) return;
  facts.history = pairs.history;
  facts.kept = Number(pairs.kept);
  facts.fresh = Number(pairs.new);
  facts.prompt = facts.kept + facts.fresh;
}

function readUsage(usage, facts) {
  facts.cached = usage.prompt_tokens_details?.cached_tokens;
  facts.reply = usage.completion_tokens;
  facts.reasoning = usage.completion_tokens_details?.reasoning_tokens ?? 0;
}

/** The most characters of a reply that are read aloud. */
const ALOUD = 1000;

function sayEnd(entry, { finish }, fault) {
  const form = entry.element.querySelector(".results");
  if (fault !== null) return tellStatus("The reply failed.");
  if (finish === "stopped") return tellStatus("Stopped.");
  if (form !== null) {
    tellStatus(`The model calls ${entry.message.tool_calls.map((call) => partsOf(call).name).join(", ")}. Type the result.`);
    if (document.activeElement === message && message.value === "") form.querySelector("textarea").focus();
    return;
  }
  status.replaceChildren("The reply is over. ", element("span", { className: "aloud" }, entry.message?.content.slice(0, ALOUD) ?? ""));
}

function stopReply() {
  if (running === null) return;
  running.abort();
  running = null;
  stop.hidden = true;
  tellStatus("Stopped.");
  message.focus();
}

function tellStatus(text) {
  status.textContent = text;
}

/** Opens the editor of the last message at the arrow key in an empty message box. */
function editLast(event) {
  if (event.key !== "ArrowUp" || message.value !== "") return;
  const last = shown.findLast((entry) => entry.role === "user");
  if (last === undefined) return;
  event.preventDefault();
  last.element.querySelector(".edit").click();
}

/** The most messages that are added to the page at once. A new reply leaves at most twice as many. */
const SOME = 100;

/**
 * Shows the chosen branch. Of a long one, only the end is on the page, so that a turn costs the browser as
 * much as the first one did.
 */
function show() {
  const path = root.leaf().path();
  from = Math.min(from, Math.max(0, path.length - SOME));
  const wanted = new Set(path.slice(from));
  const known = new Set(shown);
  for (const entry of shown) {
    if (wanted.has(entry)) continue;
    entry.element.remove();
    sizes.unobserve(entry.element);
  }
  let next = null;
  for (const entry of [...wanted].reverse()) {
    entry.element ??= showMessage(entry, acts);
    if (!known.has(entry)) {
      updateBranches(entry, acts);
      sizes.observe(entry.element);
    }
    if (entry.element.parentNode === null) log.insertBefore(entry.element, next);
    next = entry.element;
  }
  shown = [...wanted];
  const earlier = at("earlier");
  earlier.hidden = from === 0;
  earlier.textContent = `Show ${Math.min(SOME, from)} of ${from} earlier messages`;
}

function showEarlier() {
  // What is in view stays there.
  const [first] = shown;
  const before = first.element.getBoundingClientRect().top;
  from = Math.max(0, from - SOME);
  show();
  window.scrollBy(0, first.element.getBoundingClientRect().top - before);
}

// Scrolling.

/** Whether the end is kept in view while a reply grows: until the user scrolls up, and again once they are back. */
let isAtEnd = true;
/** Where the page was scrolled to when it last moved. */
let scrolledTo = 0;
/** The number of replies whose end is kept in view. */
let follows = 0;
/** How long a message may take to be laid out, in milliseconds. */
const SETTLED = 300;

/** Keeps the end in view while a reply grows, unless the user scrolled away from it. */
function followEnd() {
  const end = at("end");
  // An observer of intersections would tell too late: after the next piece of the reply.
  window.addEventListener("scroll", () => {
    // The event of a scroll comes a frame later, and the reply may have grown meanwhile. That the end is out
    // of view does not tell who moved it there; only a user moves up.
    if (end.getBoundingClientRect().top <= window.innerHeight + 80) isAtEnd = true;
    else if (window.scrollY < scrolledTo) isAtEnd = false;
    scrolledTo = window.scrollY;
  }, { passive: true });
  sizes.observe(log);
}

function keepEnd() {
  if (isAtEnd && follows > 0) scrollToEnd();
}

function scrollToEnd() {
  window.scrollTo(0, document.documentElement.scrollHeight);
  isAtEnd = true;
  scrolledTo = window.scrollY;
}

// The key.

let asking = null;

/** Asks for the key, and resolves to whether there is another than the one that was tried. */
function askForKey(fault, tried) {
  // Another request may have asked for it meanwhile.
  if (fault !== null && keyOfTab() !== tried) return Promise.resolve(true);
  asking ??= openKeyDialog(fault).finally(() => {
    asking = null;
  });
  return asking;
}

function openKeyDialog(fault) {
  const dialog = at("key-dialog");
  const text = at("key-text");
  at("key-said").textContent = fault === null ? "" : `The gateway says: ${fault.message}.`;
  text.value = "";
  dialog.showModal();
  text.focus();
  return new Promise((resolve) => {
    let isGiven = false;
    at("key-form").onsubmit = (event) => {
      event.preventDefault();
      isGiven = true;
      keepKey(text.value.trim());
      dialog.close();
    };
    at("key-cancel").onclick = () => dialog.close();
    dialog.onclose = () => {
      text.value = "";
      message.focus();
      resolve(isGiven);
    };
  });
}
