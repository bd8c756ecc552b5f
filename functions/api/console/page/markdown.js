import { Lexer } from "./vendor/marked.esm.js";
import { Copy, html, useMemo } from "./dom.js";
import { S } from "./strings.js";

const SAFE = /^(https?:|mailto:)/i;

/** Levels of quotes, lists and marks in each other that a page can draw; a text has a handful. */
const MAX_NESTED = 60;
/** Marks of emphasis in one paragraph. Reading them takes the square of their number: 100 KB of them stop a page. */
const MAX_MARKS = 1000;

class CarefulLexer extends Lexer {
  inlineTokens(text, tokens = []) {
    if (manyMarks(text)) {
      tokens.push({ type: "text", raw: text, text });
      return tokens;
    }
    return super.inlineTokens(text, tokens);
  }
}

function manyMarks(text) {
  const marks = /[*_~]/g;
  let count = 0;
  while (marks.test(text)) if ((count += 1) > MAX_MARKS) return true;
  return false;
}

/** The tokens of a text, or null for one that is to be shown as it is. */
function tokensOf(text) {
  try {
    const tokens = new CarefulLexer({ gfm: true }).lex(text);
    return isNested(tokens, MAX_NESTED) ? null : tokens;
  } catch (error) {
    console.info(error);  // A stack that overflows: `>` 2,000 times.
    return null;
  }
}

/** Whether tokens have others in them, through more than so many levels. */
function isNested(tokens, levels) {
  if (levels < 0) return true;
  return tokens.some((token) => [token.tokens, token.items].some((inner) => inner && isNested(inner, levels - 1)));
}

/** Markdown as elements. Nothing becomes markup of the page: HTML in a text is shown as text, and images of other
 *  hosts are links. */
export function Markdown({ text }) {
  const tokens = useMemo(() => tokensOf(text || ""), [text]);
  return tokens ? html`<div class="prose">${blocks(tokens)}</div>` : html`<div class="prose typed" dir="auto">${text}</div>`;
}

const blocks = (tokens) => tokens.map((token, n) => block(token, n));

function block(token, key) {
  switch (token.type) {
    case "heading": return html`<p key=${key} class="heading" role="heading" aria-level=${Math.min(6, token.depth + 2)} dir="auto">${inlines(token)}</p>`;
    case "paragraph": return html`<p key=${key} dir="auto">${inlines(token)}</p>`;
    case "code": return html`<div key=${key} class="copied"><pre tabindex="0" dir="ltr"><code>${token.text}</code></pre><${Copy} label=${S.copy.code} text=${() => token.text} /></div>`;
    case "blockquote": return html`<blockquote key=${key} dir="auto">${blocks(token.tokens)}</blockquote>`;
    case "hr": return html`<hr key=${key} />`;
    case "list": return list(token, key);
    case "table": return table(token, key);
    case "space": case "def": return null;
    case "checkbox": return checkbox(token, key);
    case "text": return token.tokens ? html`<span key=${key}>${inlines(token)}</span>` : decoded(token.text);
    default: return html`<p key=${key}>${token.raw}</p>`;
  }
}

function list(token, key) {
  const items = token.items.map((item, n) => html`<li key=${n} dir="auto" class=${item.task ? "task" : undefined}>${blocks(item.tokens)}</li>`);
  return token.ordered ? html`<ol key=${key} dir="auto" start=${token.start}>${items}</ol>` : html`<ul key=${key} dir="auto">${items}</ul>`;
}

const checkbox = ({ checked }, key) => html`<input key=${key} type="checkbox" checked=${checked} disabled aria-label=${checked ? S.chat.taskDone : S.chat.taskOpen} />`;

const ALIGNED = { left: "at-left", center: "at-center", right: "at-right" };

function table(token, key) {
  const cell = (tag, { align, ...each }, n) => html`<${tag} key=${n} dir="auto" class=${ALIGNED[align]}>${inlines(each)}</${tag}>`;
  const copied = () => [token.header, ...token.rows].map((row) => row.map((each) => each.text.replace(/\s+/g, " ")).join("\t")).join("\n");
  return html`<div key=${key} class="copied"><div class="table" tabindex="0"><table>
    <thead><tr>${token.header.map((each, n) => cell("th", each, n))}</tr></thead>
    <tbody>${token.rows.map((row, n) => html`<tr key=${n}>${row.map((each, m) => cell("td", each, m))}</tr>`)}</tbody>
  </table></div><${Copy} label=${S.copy.table} text=${copied} /></div>`;
}

const inlines = (token) => (token.tokens || []).map((each, n) => inline(each, n));

function inline(token, key) {
  switch (token.type) {
    case "strong": return html`<strong key=${key}>${inlines(token)}</strong>`;
    case "em": return html`<em key=${key}>${inlines(token)}</em>`;
    case "del": return html`<del key=${key}>${inlines(token)}</del>`;
    case "codespan": return html`<code key=${key}>${token.text}</code>`;
    case "br": return html`<br key=${key} />`;
    case "link": case "image": return link(token, key);
    case "checkbox": return checkbox(token, key);
    case "escape": return token.text;
    case "text": return token.tokens ? inlines(token) : decoded(token.text);
    default: return token.raw;
  }
}

function link(token, key) {
  const href = decoded(token.href);
  const text = token.type === "link" ? inlines(token) : token.text || href;
  return SAFE.test(href) ? html`<a key=${key} href=${href} target="_blank" rel="noopener noreferrer">${text}</a>` : token.text;
}

/** Names of the characters from U+00A0 to U+00FF, in order, and of others that texts have. A parser of HTML would know
 *  all of them, but none may see a text here. */
const LATIN = `nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute
  micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil
  Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute
  Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute
  icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml`.split(/\s+/);
const ENTITIES = {
  ...Object.fromEntries(LATIN.map((name, n) => [name, String.fromCharCode(160 + n)])),
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", ensp: "\u2002", emsp: "\u2003", thinsp: "\u2009", zwnj: "\u200c",
  zwj: "\u200d", ndash: "–", mdash: "—", lsquo: "‘", rsquo: "’", sbquo: "‚", ldquo: "“", rdquo: "”", bdquo: "„",
  lsaquo: "‹", rsaquo: "›", dagger: "†", Dagger: "‡", bull: "•", hellip: "…", permil: "‰", prime: "′", Prime: "″",
  euro: "€", trade: "™", larr: "←", uarr: "↑", rarr: "→", darr: "↓", harr: "↔", rArr: "⇒", hArr: "⇔", minus: "−",
  infin: "∞", asymp: "≈", ne: "≠", equiv: "≡", le: "≤", ge: "≥", sum: "∑", prod: "∏", radic: "√", part: "∂", int: "∫",
  check: "✓", cross: "✗", star: "☆", alpha: "α", beta: "β", gamma: "γ", delta: "δ", Delta: "Δ", epsilon: "ε",
  lambda: "λ", mu: "μ", pi: "π", sigma: "σ", tau: "τ", phi: "φ", omega: "ω", Omega: "Ω", OElig: "Œ", oelig: "œ",
};

function decoded(text) {
  return text.replace(/&(#\d{1,7}|#x[\da-f]{1,6}|\w+);/gi, (whole, name) => {
    if (name[0] !== "#") return Object.hasOwn(ENTITIES, name) ? ENTITIES[name] : whole;
    const code = /^#x/i.test(name) ? parseInt(name.slice(2), 16) : Number(name.slice(1));
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
  });
}
