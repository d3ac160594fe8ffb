// Requests to the gateway.

const KEY = "rolecall-key";

/** Returns the key of this tab, or null. */
export function keyOfTab() {
  return sessionStorage.getItem(KEY);
}

/** Keeps a key until the tab is closed. An empty one is forgotten. */
export function keepKey(key) {
  if (key === "") sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, key);
}

/** An error that the gateway answered, or that kept it from answering. */
export class Fault extends Error {
  constructor({ message, code = null, param = null, help = null, message_index = null }, status = null) {
    super(message);
    Object.assign(this, { code, param, help, status, messageIndex: message_index });
  }
}

let askForKey = async () => false;

/** Sets what asks the user for a key. It resolves to whether there is another one to try. */
export function whenKeyIsWanted(ask) {
  askForKey = ask;
}

/** Sends a request, a POST if it has a body, and returns the answer. Anything but success is thrown. */
export async function send(path, { body, signal } = {}) {
  for (;;) {
    const key = keyOfTab();
    const headers = { "content-type": "application/json" };
    if (key !== null) headers.authorization = `Bearer ${key}`;
    const response = await reach(path, { method: body === undefined ? "GET" : "POST", headers, body, signal });
    if (response.ok) return response;
    const fault = await faultOf(response);
    if (response.status !== 401 || !(await askForKey(fault, key))) throw fault;
  }
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Fault({ code: "unreachable", message: "the gateway cannot be reached" });
  }
}

async function faultOf(response) {
  const text = await response.text();
  try {
    return new Fault(JSON.parse(text).error, response.status);
  } catch {
    return new Fault({ message: text || `the gateway answered with the status ${response.status}` }, response.status);
  }
}

/** Yields the chunks of a streamed answer. An answer that ends without the word for its end is an error. */
export async function* chunks(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await read(reader);
    if (done) break;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const data = frame.replace(/^data: ?/, "");
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error !== undefined) throw new Fault(chunk.error);
      yield chunk;
    }
  }
  throw new Fault({ code: "cut_off", message: "the answer ended early" });
}

async function read(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Fault({ code: "cut_off", message: "the connection broke" });
  }
}
