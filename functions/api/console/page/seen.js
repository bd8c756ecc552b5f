/** Texts as a person can decide by them: what Python's `values.text` does for messages and terminals, for pages. */

const OUR_MARKS = /‹(?=U\+|[0-9])|⏎/g;
const BLANKS = /^[^\S\n\ufeff]+|[^\S\n\ufeff]+$|[^\S\n\ufeff]{20,}/gm, GAPS = /(\S)([^\S\n\ufeff]{20,})/g;
const OTHER_ENDS = /[\r\v\f\x1c-\x1e\x85\u2028\u2029]/g;
/** Controls apart from ends of lines and tabs, what turns the direction of others, and letters without ink. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Default_Ignorable_Code_Point}\u2800\ufff0-\ufffb\u{16fe4}\u{1d159}]/u;
const EACH_HIDDEN = new RegExp(HIDDEN.source, "gu");
/** Scripts that are written with joiners. */
const LINKED = /[\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefc]/u;
const EMOJI = /[\u00a9\u00ae\u203c-\u3299\u{1f000}-\u{1faff}]/u;
const JOINER = "\u200d", NON_JOINER = "\u200c", STYLE = "\ufe0f";

const number = (char) => `‹U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`;

/** Returns whether a script or an emoji needs the joiner, or the style of an emoji, at this place. */
function isNeeded(char, at, text) {
  if (char !== JOINER && char !== NON_JOINER && char !== STYLE) return false;
  const before = [...text.slice(Math.max(0, at - 2), at)].at(-1) ?? "", after = [...text.slice(at + 1, at + 3)][0] ?? "";
  if (char === STYLE) return EMOJI.test(before) || after === "\u20e3";
  return (LINKED.test(before) && LINKED.test(after)) || (char === JOINER && (EMOJI.test(before) || before === STYLE) && EMOJI.test(after));
}

/** A text in which each character that cannot be seen, or that turns others, is its number: `‹U+202E›`. */
export function reveal(text) {
  if (!HIDDEN.test(text)) return text;
  return text.replace(/\r\n/g, "\n").replace(EACH_HIDDEN, (char, at, whole) => (char === "\n" || char === "\t" || isNeeded(char, at, whole) ? char : number(char)));
}

const counted = (blanks) => `‹${blanks.length} blank${blanks.length === 1 ? "" : "s"}›`;

/** A value as JSON of ours, in which the ends of lines are ours, too: what its texts have of marks and gaps is told apart. */
export const showJson = (json) => reveal(json.replace(OUR_MARKS, number).replace(OTHER_ENDS, number).replace(GAPS, (_, before, blanks) => before + counted(blanks)));

/** A value's text: `reveal`, with a mark at the end of each line and the number of blanks that nobody sees or counts, so
 *  that no part of it passes for something that stands next to it. */
export function show(text) {
  const marked = text.replace(OUR_MARKS, number).replace(/\r\n/g, "\n").replace(OTHER_ENDS, "\n");
  const isIndent = (blanks, at, whole) => at > 0 && whole[at - 1] === "\n" && at + blanks.length < whole.length && whole[at + blanks.length] !== "\n" && blanks.length < 20;
  const gaps = marked.replace(BLANKS, (blanks, at, whole) => (isIndent(blanks, at, whole) ? blanks : counted(blanks)));
  return reveal(gaps).replace(/\n/g, "⏎\n");
}
