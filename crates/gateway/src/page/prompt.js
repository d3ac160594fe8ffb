// A prompt by origin: which part of the conversation, the format or the tools each token comes from.

import { button, element } from "./dom.js";

/** What a token can be, with how the legend explains it. The order is that of the legend. */
const KINDS = {
  control: "control token",
  format: "the format's own text",
  system: "system message",
  user: "user message",
  assistant: "earlier reply",
  tool: "result of a tool",
  other: "message of another role",
  definition: "tool definition",
  document: "document",
  option: "option of the template",
};

/** The most rows that are drawn at once, and the most pieces of a row. */
const ROWS = 200;
const PIECES = 400;

/**
 * Draws the answer of `/v1/render`. `messages` are those of the request, `kept` is the number of ids that
 * the session kept, and `sent` that of all it sent.
 */
export function drawPrompt(host, { explanation, messages, kept, sent }) {
  const pieces = piecesOf(explanation, messages);
  const rows = rowsOf(pieces, kept === sent ? 0 : kept);
  host.replaceChildren(
    legendOf(pieces),
    ...notesOf(explanation, messages, sent),
    switchOfIds(host),
    listOf(rows, kept),
  );
}

/** Returns the pieces of a prompt: tokens, or several that share a character. */
function piecesOf({ prompt, tokens, spelled = [] }, messages) {
  const bytes = new TextEncoder().encode(prompt);
  const decoder = new TextDecoder();
  const isInside = (at) => (bytes[at] & 0xc0) === 0x80;
  const pieces = [];
  let mark = 0;
  for (const [index, token] of tokens.entries()) {
    const last = pieces.at(-1);
    if (last !== undefined && token.end > token.start && (token.start < last.end || isInside(token.start))) {
      last.ids.push(token.id);
      last.end = Math.max(last.end, token.end);
      continue;
    }
    while (mark < spelled.length && spelled[mark].end <= token.start) mark += 1;
    const kind = token.control ? "control" : kindOf(token.origin, messages);
    const isSpelled = !token.control && mark < spelled.length && spelled[mark].start < token.end;
    const name = nameOf(token.origin, messages);
    pieces.push({ index, ids: [token.id], start: token.start, end: token.end, kind, name, isSpelled });
  }
  for (const piece of pieces) piece.text = decoder.decode(bytes.subarray(piece.start, piece.end));
  return pieces;
}

function kindOf(origin, messages) {
  if (origin === undefined || typeof origin === "string") return "format";
  if ("tool" in origin) return "definition";
  if ("document" in origin) return "document";
  if ("option" in origin) return "option";
  const role = messages[origin.message]?.role;
  return Object.hasOwn(KINDS, role) ? role : "other";
}

/** Returns the name of an origin: `1 user`, `2 assistant reasoning_content`, `tool 0`. */
function nameOf(origin, messages) {
  if (origin === undefined || typeof origin === "string") return "format";
  if ("message" in origin) {
    const role = messages[origin.message]?.role ?? "message";
    return origin.field === "content" ? `${origin.message} ${role}` : `${origin.message} ${role} ${origin.field}`;
  }
  return Object.entries(origin).flat().join(" ");
}

/** Returns the rows: one for each line, and cut where the new ids begin. */
function rowsOf(pieces, kept) {
  const rows = [];
  let row = [];
  for (const piece of pieces) {
    if (row.length >= PIECES || (row.length > 0 && piece.index === kept)) {
      rows.push(row);
      row = [];
    }
    row.push(piece);
    if (piece.text.includes("\n")) {
      rows.push(row);
      row = [];
    }
  }
  if (row.length > 0) rows.push(row);
  return rows;
}

/** Draws the last rows, and a button for those before. */
function listOf(rows, kept) {
  const list = element("div", { className: "rows", role: "list" });
  let from = rows.length;
  const earlier = button("", () => {
    const focused = document.activeElement === earlier;
    drawEarlier();
    if (focused && from > 0) earlier.focus();
  });
  const drawEarlier = () => {
    const start = Math.max(0, from - ROWS);
    const drawn = rows.slice(start, from).flatMap((row) => elementsOf(row, kept));
    from = start;
    list.prepend(...drawn);
    earlier.textContent = `Show ${Math.min(ROWS, from)} of ${from} earlier lines`;
    earlier.hidden = from === 0;
  };
  drawEarlier();
  return element("div", {}, earlier, list);
}

function elementsOf(row, kept) {
  const own = row.find((piece) => piece.kind !== "control" && piece.kind !== "format") ?? row[0];
  const drawn = element(
    "div",
    { className: row[0].index < kept ? "row kept" : "row", role: "listitem" },
    element("span", { className: "origin" }, own.name),
    element("span", { className: "pieces" }, ...row.map(spanOf)),
  );
  if (row[0].index !== kept || kept === 0) return [drawn];
  const line = element("div", { className: "boundary", role: "listitem" }, `${kept} ids above were kept. New from here:`);
  return [line, drawn];
}

function spanOf(piece) {
  const ids = piece.ids.join(" ");
  const what = piece.kind === "control" ? "control token" : piece.name;
  const title = `${ids}: ${piece.isSpelled ? `${what}, text that spells a control token` : what}`;
  const text = piece.text.replaceAll("\n", "⏎").replaceAll("\t", "⇥");
  const className = `piece ${piece.kind}${piece.isSpelled ? " spelled" : ""}`;
  return element("span", { className, title, "data-ids": ids }, text);
}

function legendOf(pieces) {
  const present = new Set(pieces.map((piece) => piece.kind));
  const entries = Object.entries(KINDS).filter(([kind]) => present.has(kind));
  if (pieces.some((piece) => piece.isSpelled)) entries.push(["spelled", "text that spells a control token"]);
  const entry = ([kind, text]) => element("li", {}, element("span", { className: `piece ${kind}` }, text));
  return element("ul", { className: "legend", ariaLabel: "Legend" }, ...entries.map(entry));
}

/** Returns what a reader of the prompt should know. */
function notesOf({ ids, spelled = [], notes = [], left_out = [], unusual = [] }, messages, sent) {
  const texts = spelled.map(({ token, origin, control }) => {
    const where = nameOf(origin, messages);
    return control ? `${where} spells ${token}, which is a control token here.` : `${where} spells ${token}. It is text.`;
  });
  texts.push(...notes.map((note) => note.message));
  texts.push(...left_out.map(({ why, count, field, message }) => {
    const where = message === undefined ? field : `message ${message}, ${field}`;
    return `Left out ${count} times, first in ${where}: ${why}`;
  }));
  texts.push(...unusual.map(({ option, value }) => `The option ${option} has the unusual value ${value}.`));
  if (sent !== null && sent !== ids.length) {
    texts.push(`The session sent ${sent} ids, as it keeps replies as they were sampled. Written anew, they are ${ids.length}.`);
  }
  if (texts.length === 0) return [];
  return [element("ul", { className: "notes" }, ...texts.map((text) => element("li", {}, text)))];
}

function switchOfIds(host) {
  const box = element("input", { type: "checkbox", onchange: () => host.classList.toggle("with-ids", box.checked) });
  host.classList.remove("with-ids");
  return element("label", { className: "switch" }, box, " Show ids");
}
