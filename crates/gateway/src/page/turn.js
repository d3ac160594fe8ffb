// Messages and replies as the page shows them.

import { send } from "./api.js";
import { GrowingText, button, element, labelledArea } from "./dom.js";
import { drawPrompt } from "./prompt.js";

/**
 * Shows a message that was sent. `acts` has `edit(entry, text)` and `choose(entry, step)`.
 */
export function showMessage(entry, acts) {
  const { role, content, tool_call_id: call } = entry.message;
  const body = element("div", { className: "text" });
  new GrowingText(body).push(content);
  const edit = button("Edit", () => showEditor(entry, acts));
  edit.className = "edit";
  return element(
    "article",
    { className: `message ${role}`, ariaLabel: role === "tool" ? "Result of a tool" : "Message" },
    element("header", {}, element("h2", {}, role === "tool" ? `result of ${call}` : role), edit, branches(entry, acts)),
    body,
  );
}

/** Lets a message be written anew. The conversation goes on from there. */
function showEditor(entry, acts) {
  const shown = entry.element.querySelector(".text");
  if (shown.hidden) return;
  const { area, label } = labelledArea("New text", 3);
  area.value = entry.message.content;
  const close = () => {
    form.remove();
    shown.hidden = false;
    entry.element.querySelector(".edit").focus();
  };
  const form = element(
    "form",
    {
      className: "editor",
      onsubmit: (event) => {
        event.preventDefault();
        close();
        acts.edit(entry, area.value);
      },
      onkeydown: (event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        close();
      },
    },
    label,
    area,
    element("div", { className: "bar" }, button("Cancel", close), element("button", { type: "submit" }, "Send")),
  );
  sendOnEnter(area, () => form.requestSubmit());
  shown.hidden = true;
  shown.after(form);
  area.focus();
}

/** Sends at Enter, but not at Shift+Enter or while an input method composes. */
export function sendOnEnter(area, act) {
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    act();
  });
}

/** Returns what switches between the branches at an entry, or null. */
function branches(entry, acts) {
  const all = entry.parent.children;
  if (all.length < 2) return null;
  const at = all.indexOf(entry);
  const step = (text, label, by) => {
    const made = button(text, () => acts.choose(entry, by));
    made.ariaLabel = label;
    made.disabled = all[at + by] === undefined;
    return made;
  };
  return element(
    "span",
    { className: "branches" },
    step("‹", "Earlier branch", -1),
    element("span", {}, `branch ${at + 1} of ${all.length}`),
    step("›", "Later branch", 1),
  );
}

/** Shows the branches at an entry again, after one was added. */
export function updateBranches(entry, acts) {
  const header = entry.element.querySelector("header");
  header.querySelector(".branches")?.remove();
  const shown = branches(entry, acts);
  if (shown !== null) header.append(shown);
}

/**
 * A reply. It is updated by what is new, and at most once for each frame that the browser draws.
 * `acts` has `answer(entry, results)`, `again(entry)` and `choose(entry, step)`.
 */
export class ReplyView {
  constructor(entry, acts) {
    this.entry = entry;
    this.acts = acts;
    this.waiting = { content: "", reasoning: "" };
    this.frame = null;
    this.calls = [];
    this.content = element("div", { className: "text" });
    this.reasoning = element("div", { className: "text" });
    this.thought = element(
      "details",
      { className: "reasoning", hidden: true },
      element("summary", {}, "Reasoning"),
      this.reasoning,
    );
    this.grown = { content: new GrowingText(this.content), reasoning: new GrowingText(this.reasoning) };
    this.called = element("div", { className: "calls" });
    this.ended = element("div", { className: "ended" });
    this.header = element("header", {}, element("h2", {}, "assistant"));
    entry.element = element(
      "article",
      { className: "message assistant", ariaLabel: "Reply", ariaBusy: "true" },
      this.header,
      this.thought,
      this.content,
      this.called,
      this.ended,
    );
    updateBranches(entry, acts);
  }

  /** Takes a piece of the reply, which `message` has by now. */
  push(delta, message) {
    this.waiting.content += delta.content ?? "";
    this.waiting.reasoning += delta.reasoning_content ?? "";
    for (const { index } of delta.tool_calls ?? []) this.calls[index] ??= { shown: null, written: 0 };
    this.message = message;
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = null;
    const { content, reasoning } = this.waiting;
    this.waiting = { content: "", reasoning: "" };
    if (reasoning !== "") this.thought.hidden = false;
    this.grown.content.push(content);
    this.grown.reasoning.push(reasoning);
    for (const [index, call] of this.calls.entries()) this.drawCall(index, call);
  }

  drawCall(index, call) {
    if (call === undefined) return;
    const { name, written } = partsOf(this.message.tool_calls[index]);
    if (call.shown === null) {
      const title = element("h3", {}, `Call ${index + 1}: `, element("code", { className: "name" }, name));
      const code = element("pre", { className: "arguments", tabIndex: 0, ariaLabel: `Arguments of ${name}` });
      call.shown = element("section", { className: "call" }, title, code);
      call.text = new GrowingText(code);
      this.called.append(call.shown);
    }
    call.text.push(written.slice(call.written));
    call.written = written.length;
  }

  /** Shows that the reply is over, with what is known of it. Its whole calls can be answered. */
  end({ facts, fault, calls }) {
    if (this.frame !== null) {
      cancelAnimationFrame(this.frame);
      this.draw();
    }
    const { entry } = this;
    entry.element.ariaBusy = "false";
    this.header.append(button("Try again", () => this.acts.again(entry)));
    for (const [index, call] of this.calls.entries()) {
      const isCut = call !== undefined && !calls.includes(this.message.tool_calls[index]);
      if (isCut) call.shown.append(element("p", { className: "wrong" }, "This call was cut off. It is left out."));
    }
    if (calls.length > 0) this.called.append(this.resultsForm(calls));
    if (fault !== null) this.ended.append(showFault(fault));
    this.ended.append(showFacts(facts), this.promptDetails(facts));
  }

  /** Returns the form for the results of calls. */
  resultsForm(calls) {
    const fields = calls.map((call) => {
      const index = this.message.tool_calls.indexOf(call);
      const { area, label } = labelledArea(`Result of call ${index + 1}, ${partsOf(call).name}`, 2);
      area.className = "result";
      return { call, area, label };
    });
    const form = element(
      "form",
      {
        className: "results",
        onsubmit: (event) => {
          event.preventDefault();
          const results = fields.map(({ call, area }) => ({ role: "tool", tool_call_id: call.id, content: area.value }));
          this.acts.answer(this.entry, results);
        },
      },
      ...fields.flatMap(({ area, label }) => [label, area]),
      element("div", { className: "bar" }, element("button", { type: "submit" }, calls.length > 1 ? "Send results" : "Send result")),
    );
    for (const { area } of fields) {
      sendOnEnter(area, () => {
        const open = fields.find((field) => field.area.value === "");
        if (open === undefined || open.area === area) form.requestSubmit();
        else open.area.focus();
      });
    }
    return form;
  }

  /** Returns the prompt by origin. It is asked for when it is opened. */
  promptDetails({ kept, prompt }) {
    const { entry } = this;
    const host = element("div", { className: "explained" });
    let isAsked = false;
    const load = async () => {
      if (!details.open || isAsked) return;
      isAsked = true;
      host.textContent = "Loading";
      const messages = entry.parent.messages();
      try {
        const response = await send("v1/render", { body: entry.setup.body(messages) });
        const explanation = await response.json();
        drawPrompt(host, { explanation, messages: entry.setup.messages(messages), kept: kept ?? 0, sent: prompt ?? null });
      } catch (fault) {
        isAsked = false;
        host.replaceChildren(showFault(fault));
      }
    };
    const details = element(
      "details",
      { className: "by-origin", ontoggle: load },
      element("summary", {}, "Prompt by origin"),
      host,
    );
    return details;
  }
}

/** Returns the name of a call, and what it has said so far. */
export function partsOf(call) {
  const inner = call[call.type ?? "function"] ?? {};
  return { name: inner.name ?? call.type ?? "", written: inner.arguments ?? inner.input ?? "" };
}

/** Shows an error with all that is known of it. */
function showFault({ message, code, param, help, messageIndex, status }) {
  const facts = [
    ["code", code],
    ["status", status],
    ["field", param],
    ["message", messageIndex],
  ].filter(([, value]) => value !== null && value !== undefined);
  return element(
    "div",
    { className: "fault", role: "alert" },
    element("p", {}, message),
    help ? element("p", {}, `Help: ${help}`) : null,
    element("p", { className: "facts" }, facts.map(([name, value]) => `${name} ${value}`).join(" · ")),
  );
}

/** Shows what a reply took, and what was decided for it. */
function showFacts({ finish, history, prompt, kept, fresh, cached, reply, reasoning, seconds, first, defaults }) {
  const facts = [["finish", finish]];
  if (prompt !== undefined) facts.push(["prompt", `${prompt} ids`], ["kept", kept], ["new", fresh]);
  if (history !== undefined) facts.push(["history", history]);
  if (cached !== undefined) facts.push(["engine had", cached]);
  if (reply !== undefined) facts.push(["sampled", reasoning > 0 ? `${reply}, ${reasoning} of them reasoning` : reply]);
  if (first !== undefined) facts.push(["first", `${first.toFixed(2)} s`]);
  facts.push(["time", `${seconds.toFixed(2)} s`]);
  if (defaults) facts.push(["defaults", defaults]);
  const pair = ([name, value]) => element("div", { className: name.replace(" ", "-") }, element("dt", {}, name), element("dd", {}, `${value}`));
  const list = element("dl", { className: "facts" }, ...facts.map(pair));
  if (prompt === undefined) return list;
  const text = `${kept} of ${prompt} ids were kept`;
  const share = element("meter", { min: 0, max: prompt, value: kept, ariaLabel: text, title: text }, text);
  return element("div", {}, share, list);
}
