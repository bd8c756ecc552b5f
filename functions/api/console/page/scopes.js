import { Problem, id, post } from "./api.js";
import { html } from "./dom.js";
import { S } from "./strings.js";

const PROOFS = "layover.proofs";
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

const proofs = () => JSON.parse(localStorage.getItem(PROOFS) || "[]");

/** `[state, proof]` of a consent that was begun in this browser. */
export const proofOf = (state) => proofs().find(([each]) => each === state);

/** The page at which the user consents, made now: it is the user's only, works once, and only in this browser.
 *  Throws a Problem. */
export async function consentPage(connection) {
  const proof = crypto.randomUUID?.();  // Not there without HTTPS.
  const hash = proof && await crypto.subtle.digest("SHA-256", new TextEncoder().encode(proof));
  const body = proof && { proof_hash: btoa(String.fromCharCode(...new Uint8Array(hash))) };
  const page = pageOf((await post(`/me/connections/${id(connection)}`, body)).authorize_url);
  if (!page) throw new Problem(0, { detail: S.connections.unsafe });
  localStorage.setItem(PROOFS, JSON.stringify([...proofs(), [new URL(page).searchParams.get("state"), proof]].slice(-20)));
  return page;
}

export function Scopes({ label, scopes }) {
  if (!scopes?.length) return null;
  return html`<p class="quiet small scopes">${label}: ${scopes.map((scope, n) => html`${n > 0 && ", "}<code key=${scope}>${scope}</code>`)}</p>`;
}
