// Elements of the page. Text from users and models becomes text nodes here, and never markup.

/** Makes an element with properties, and with children that are elements or texts. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** Makes a button. */
export function button(text, act) {
  return element("button", { type: "button", onclick: act }, text);
}

let labels = 0;

/** Makes a text area with its label. */
export function labelledArea(label, rows) {
  const id = `area-${(labels += 1)}`;
  const area = element("textarea", { id, rows });
  return { area, label: element("label", { htmlFor: id }, label) };
}

/** The length from which a block of text is closed at the next line break. */
const FULL = 1000;

/**
 * Text that grows at its end. It is cut into blocks of lines, so that the browser lays out only the last
 * one again. The blocks together are exactly the text.
 */
export class GrowingText {
  constructor(host) {
    this.host = host;
    this.last = null;
  }

  push(text) {
    while (text !== "") {
      if (this.last === null) {
        this.last = document.createTextNode("");
        this.host.append(element("div", {}, this.last));
      }
      const room = Math.max(0, FULL - this.last.length);
      const end = text.length > room ? text.indexOf("\n", room) + 1 : 0;
      this.last.appendData(end === 0 ? text : text.slice(0, end));
      if (end === 0) return;
      this.last = null;
      text = text.slice(end);
    }
  }
}
