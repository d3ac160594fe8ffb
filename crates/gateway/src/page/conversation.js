// A conversation as a tree: editing a message adds a sibling, and the other branch stays.

/** A message of the conversation, or a reply that is still coming. */
export class Entry {
  /** `message` is null as long as there is nothing to send back. */
  constructor(parent, role, message) {
    Object.assign(this, { parent, role, message });
    this.children = [];
    /** The child on the branch that is shown. */
    this.chosen = null;
    /** The element that shows it. */
    this.element = null;
    if (parent !== null) {
      parent.children.push(this);
      parent.chosen = this;
    }
  }

  /** Returns this entry and those before it, the first one first. The root is not among them. */
  path() {
    const path = [];
    for (let entry = this; entry.parent !== null; entry = entry.parent) path.push(entry);
    return path.reverse();
  }

  /** Returns the messages up to and including this one. */
  messages() {
    return this.path().map((entry) => entry.message).filter((message) => message !== null);
  }

  /** Returns the last entry of the branch that is shown. */
  leaf() {
    let entry = this;
    while (entry.chosen !== null) entry = entry.chosen;
    return entry;
  }
}

/** What a request says apart from its messages. It stays as it was when the request was sent. */
export class Setup {
  /**
   * `fields` is an object, `system` the text of a system message. `tools` and `more` are JSON texts, or
   * empty. They are sent as they were typed, so that no number changes and no key is dropped.
   */
  constructor({ fields, system, tools, more }) {
    Object.assign(this, { fields, system, tools, more });
  }

  /** Returns the messages that the gateway gets. */
  messages(messages) {
    return this.system === "" ? messages : [{ role: "system", content: this.system }, ...messages];
  }

  /** Returns the body of a request. */
  body(messages) {
    let body = JSON.stringify({ ...this.fields, messages: this.messages(messages) }).slice(0, -1);
    if (this.tools !== "") body += `,"tools":${this.tools}`;
    const inner = this.more.trim().slice(1, -1).trim();
    if (inner !== "") body += `,${inner}`;
    return `${body}}`;
  }
}

/** Adds a piece of a streamed reply to its message. */
export function addDelta(message, delta) {
  if (delta.content) message.content += delta.content;
  if (delta.reasoning_content) message.reasoning_content = (message.reasoning_content ?? "") + delta.reasoning_content;
  for (const { index, ...piece } of delta.tool_calls ?? []) {
    message.tool_calls ??= [];
    const call = (message.tool_calls[index] ??= {});
    for (const [key, value] of Object.entries(piece)) {
      if (typeof value !== "object") call[key] = value;
      else call[key] = joined(call[key] ?? {}, value);
    }
  }
}

/** Joins the pieces of a call: its name comes whole, its arguments or its code in pieces. */
function joined(call, piece) {
  const all = { ...call };
  for (const [key, text] of Object.entries(piece)) all[key] = key === "name" ? text : (all[key] ?? "") + text;
  return all;
}

/** Returns the calls of a reply that can be sent back: those that were not cut off. */
export function wholeCalls({ tool_calls: calls = [] }, finish) {
  const isWhole = (call) => {
    if (finish === "tool_calls") return true;
    try {
      JSON.parse(call.function.arguments);
      return true;
    } catch {
      return false;
    }
  };
  return calls.filter(isWhole);
}

/** Returns what is wrong with the text of tool definitions, or their names. */
export function readTools(text) {
  if (text.trim() === "") return { names: [] };
  let tools;
  try {
    tools = JSON.parse(text);
  } catch (error) {
    return { wrong: `This is not JSON: ${error.message}` };
  }
  if (!Array.isArray(tools)) return { wrong: "Expected an array: [{\"type\": \"function\", \"function\": {..}}]" };
  const names = [];
  for (const [at, tool] of tools.entries()) {
    const name = tool?.function?.name;
    if (tool?.type !== "function") return { wrong: `Tool ${at}: expected "type": "function"` };
    if (typeof name !== "string" || name === "") return { wrong: `Tool ${at}: expected a "function" with a "name"` };
    if (names.includes(name)) return { wrong: `Tool ${at}: another tool has the name ${name}` };
    names.push(name);
  }
  return { names };
}

/** Returns what is wrong with the text of a JSON object, or null. */
export function wrongObject(text) {
  if (text.trim() === "") return null;
  try {
    const value = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? null : "Expected an object: {\"top_p\": 0.9}";
  } catch (error) {
    return `This is not JSON: ${error.message}`;
  }
}
