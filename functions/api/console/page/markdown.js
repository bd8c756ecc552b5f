import { lexer } from "./vendor/marked.esm.js";
import { html, useMemo } from "./dom.js";

const SAFE = /^(https?:|mailto:)/i;

/** Markdown as elements. Nothing becomes markup of the page: HTML in a text is shown as text, and images of other
 *  hosts are links. */
export function Markdown({ text }) {
  const tokens = useMemo(() => lexer(text || "", { gfm: true }), [text]);
  return html`<div class="prose">${blocks(tokens)}</div>`;
}

const blocks = (tokens) => tokens.map((token, n) => block(token, n));

function block(token, key) {
  switch (token.type) {
    case "heading": return html`<p key=${key} class="heading" role="heading" aria-level=${Math.min(6, token.depth + 2)}>${inlines(token)}</p>`;
    case "paragraph": return html`<p key=${key}>${inlines(token)}</p>`;
    case "code": return html`<pre key=${key} tabindex="0"><code>${token.text}</code></pre>`;
    case "blockquote": return html`<blockquote key=${key}>${blocks(token.tokens)}</blockquote>`;
    case "hr": return html`<hr key=${key} />`;
    case "list": return list(token, key);
    case "table": return table(token, key);
    case "space": return null;
    case "text": return token.tokens ? html`<span key=${key}>${inlines(token)}</span>` : token.text;
    default: return html`<p key=${key}>${token.raw}</p>`;
  }
}

function list(token, key) {
  const items = token.items.map((item, n) => html`<li key=${n}>
    ${item.task && html`<input type="checkbox" checked=${item.checked} disabled />`}${blocks(item.tokens)}</li>`);
  return token.ordered ? html`<ol key=${key} start=${token.start}>${items}</ol>` : html`<ul key=${key}>${items}</ul>`;
}

function table(token, key) {
  return html`<div key=${key} class="table" tabindex="0"><table>
    <thead><tr>${token.header.map((cell, n) => html`<th key=${n}>${inlines(cell)}</th>`)}</tr></thead>
    <tbody>${token.rows.map((row, n) => html`<tr key=${n}>${row.map((cell, m) => html`<td key=${m}>${inlines(cell)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

const inlines = (token) => (token.tokens || []).map((each, n) => inline(each, n));

function inline(token, key) {
  switch (token.type) {
    case "strong": return html`<strong key=${key}>${inlines(token)}</strong>`;
    case "em": return html`<em key=${key}>${inlines(token)}</em>`;
    case "del": return html`<del key=${key}>${inlines(token)}</del>`;
    case "codespan": return html`<code key=${key}>${token.text}</code>`;
    case "br": return html`<br key=${key} />`;
    case "link": case "image": return SAFE.test(token.href)
      ? html`<a key=${key} href=${token.href} target="_blank" rel="noopener noreferrer">${token.type === "link" ? inlines(token) : token.text || token.href}</a>`
      : token.text;
    case "escape": return token.text;
    case "text": return token.tokens ? inlines(token) : unescaped(token.text);
    default: return token.raw;
  }
}

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };
const unescaped = (text) => text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => ENTITIES[name]);
