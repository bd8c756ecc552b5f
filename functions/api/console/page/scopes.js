import { html } from "./dom.js";

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/** The address of a service's page; null if a browser must not be sent there. */
export function pageOf(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  const safe = url.protocol === "https:" || (url.protocol === "http:" && LOOPBACK.includes(url.hostname));
  return safe ? url.href : null;
}

export function Scopes({ label, scopes }) {
  if (!scopes?.length) return null;
  return html`<p class="quiet small scopes">${label}: ${scopes.map((scope, n) => html`${n > 0 && ", "}<code key=${scope}>${scope}</code>`)}</p>`;
}
