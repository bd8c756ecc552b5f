import { Problem, id, post } from "./api.js";
import { html } from "./dom.js";
import { S } from "./strings.js";

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/** The address of a service's page; null if a browser must not be sent there. */
function pageOf(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  const safe = url.protocol === "https:" || (url.protocol === "http:" && LOOPBACK.includes(url.hostname));
  return safe ? url.href : null;
}

/** The page at which the user consents, made now: it is the user's only, and works once. Throws a Problem. */
export async function consentPage(connection) {
  const page = pageOf((await post(`/me/connections/${id(connection)}`)).authorize_url);
  if (!page) throw new Problem(0, { detail: S.connections.unsafe });
  return page;
}

export function Scopes({ label, scopes }) {
  if (!scopes?.length) return null;
  return html`<p class="quiet small scopes">${label}: ${scopes.map((scope, n) => html`${n > 0 && ", "}<code key=${scope}>${scope}</code>`)}</p>`;
}
