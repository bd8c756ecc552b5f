/** JSON without a loss: whole numbers that a JavaScript number would round are BigInts here, such as ids of 64 bits. */

const LONG = /\d{16}/;
const PIECES = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const MARK = `whole ${String(Math.random()).slice(2)} `;  // No text from elsewhere can begin with it.
const WRITTEN = new RegExp(`"${MARK}(-?\\d+)"`, "g");

/** A whole number from its digits. */
export function wholeOf(digits) {
  const number = Number(digits);
  return Number.isSafeInteger(number) ? number : BigInt(digits);
}

const isLong = (piece) => /^-?\d+$/.test(piece) && !Number.isSafeInteger(Number(piece));

/** The value of a JSON text. Throws SyntaxError. */
export function parseJson(text) {
  const value = JSON.parse(text);  // Refuses a text before any of it is marked.
  if (!LONG.test(text)) return value;
  const marked = String(text).replace(PIECES, (piece) => (isLong(piece) ? `"${MARK}${piece}"` : piece));
  return JSON.parse(marked, (_, each) => (typeof each === "string" && each.startsWith(MARK) ? BigInt(each.slice(MARK.length)) : each));
}

/** The JSON of a value. */
export function toJson(value, indent) {
  const text = JSON.stringify(value, (_, each) => (typeof each === "bigint" ? `${MARK}${each}` : each), indent);
  return text?.replace(WRITTEN, "$1");
}

const inOrder = (value) => {
  if (Array.isArray(value)) return value.map(inOrder);
  if (!value || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, inOrder(value[name])]));
};

/** Returns whether two values are the same JSON, in whatever order the names of their objects are. */
export const isSame = (one, other) => toJson(inOrder(one)) === toJson(inOrder(other));
