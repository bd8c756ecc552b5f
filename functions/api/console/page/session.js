import { Problem, get } from "./api.js";
import { S } from "./strings.js";

const NAME = "layover.name";
const TOKENS = "layover.tokens";
const ATTEMPT = "layover.sign-in";
const CONSENT = "layover.consent";
const MAX_SAID = 200;
const EARLY_MS = 60000;
/** Scopes that groups of Layover's own names give. */
const GROUP_SCOPES = { "layover-operators": "operate", "layover-auditors": "audit", "layover-readers": "read-content" };

const keep = (name, value) => sessionStorage.setItem(name, JSON.stringify(value));
const kept = (name) => JSON.parse(sessionStorage.getItem(name) || "null");
/** The console's own address, also on the page to which services send the browser back: the only one for sign-ins. */
const here = () => new URL(".", document.baseURI).href;

/** Takes what a service has sent back out of the address, before anything else reads it. Returns whether a service has
 *  sent the browser here. What it sent stays in this tab while its user signs in. */
export function takeConsent() {
  const [, connection] = /\/connected\/([^/]+)$/.exec(location.pathname) || [];
  if (!connection) return false;
  const query = new URLSearchParams(location.search);
  const said = (name) => (query.get(name) || "").slice(0, MAX_SAID);
  if (query.has("error")) keep(CONSENT, { error: said("error"), description: said("error_description") });
  else if (query.get("code") && query.get("state")) {
    keep(CONSENT, { code: query.get("code"), state: query.get("state"), connection, iss: query.get("iss") || undefined });
  }
  else dropConsent();
  history.replaceState(null, "", `${new URL("..", document.baseURI).href}#/connected`);
  return true;
}

/** What a service has sent back, until it is settled: `{code, state, connection, iss}`, or `{error, description}` if there
 *  is no consent. */
export const consentHere = () => kept(CONSENT);
export const dropConsent = () => sessionStorage.removeItem(CONSENT);

/** The source of tokens: `{issuer, client_id, scope, ...}`; no issuer on one machine. */
export const discover = () => get("/.well-known/layover");

function encoded(bytes) {
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

const randomText = () => encoded(crypto.getRandomValues(new Uint8Array(48)));

async function provider(issuer) {
  const answer = await fetch(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`);
  if (!answer.ok) throw new Problem(answer.status, { detail: S.problem.provider });
  return answer.json();
}

/** Leaves for the provider's page (authorization code with PKCE, RFC 7636). */
export async function signIn(access) {
  const [verifier, state] = [randomText(), randomText()];
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  keep(ATTEMPT, { verifier, state, hash: location.hash });
  const page = new URL((await provider(access.issuer)).authorization_endpoint);
  const query = {
    response_type: "code", client_id: access.client_id, redirect_uri: here(), state,
    scope: `openid ${access.login_scope || access.scope}`, code_challenge: encoded(new Uint8Array(digest)), code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(query)) page.searchParams.set(name, value);
  location.assign(page);
}

/** Completes the sign-in if the provider has just sent the browser back. */
export async function completeSignIn(access) {
  const query = new URLSearchParams(location.search);
  if (!query.has("state")) return;
  const attempt = kept(ATTEMPT);
  sessionStorage.removeItem(ATTEMPT);
  history.replaceState(null, "", here() + (attempt?.hash || ""));
  if (!attempt || attempt.state !== query.get("state") || !query.has("code")) {
    throw new Problem(0, { detail: S.problem.signIn });
  }
  await redeem(access, {
    grant_type: "authorization_code", code: query.get("code"), redirect_uri: here(), code_verifier: attempt.verifier,
  });
}

async function redeem(access, form) {
  const { token_endpoint: endpoint } = await provider(access.issuer);
  const body = new URLSearchParams({ client_id: access.client_id, ...form });
  const answer = await fetch(endpoint, { method: "POST", body });
  if (!answer.ok) throw new Problem(answer.status, { detail: S.problem.signIn });
  const given = await answer.json();
  if (form.refresh_token && kept(TOKENS)?.refresh !== form.refresh_token) return;  // Signed out meanwhile.
  keep(TOKENS, {
    access: given.access_token, refresh: given.refresh_token || form.refresh_token, id: given.id_token || kept(TOKENS)?.id,
    until: Date.now() + (given.expires_in || 3600) * 1000,
  });
}

/** New tokens; none if the provider refuses, and the API then asks to sign in. */
async function renew(access, refresh) {
  try {
    await redeem(access, { grant_type: "refresh_token", refresh_token: refresh });
  } catch (error) {
    if (!(error.status >= 400 && error.status < 500)) throw error;
    sessionStorage.removeItem(TOKENS);
  }
}

/** A name on one machine, with groups and scopes if they are wanted: this tab's, and that of tabs to come. */
export function signInLocally(name) {
  keep(NAME, name);
  localStorage.setItem(NAME, name);
}

/** The name of this tab. A new tab takes the one that signed in last; one that signed out takes none. */
function localName() {
  const name = kept(NAME) ?? localStorage.getItem(NAME);
  if (name) keep(NAME, name);
  return name || null;
}

/** Forgets who is signed in in this tab. */
export function forgetUser() {
  if (localStorage.getItem(NAME) === kept(NAME)) localStorage.removeItem(NAME);
  keep(NAME, "");
  sessionStorage.removeItem(TOKENS);
}

/** Forgets the user at once, has the provider revoke the refresh token, and leaves for the page that ends the provider's own
 *  session: by it, the next person at this computer would be signed in. Returns whether that session may go on. */
export async function signOut(access) {
  const tokens = kept(TOKENS);
  forgetUser();
  if (!access.issuer || !tokens) return false;
  try {
    const { revocation_endpoint: revocation, end_session_endpoint: end } = await provider(access.issuer);
    if (revocation && tokens.refresh) {
      const body = new URLSearchParams({ client_id: access.client_id, token: tokens.refresh, token_type_hint: "refresh_token" });
      // Not every provider lets pages read the answer, which changes nothing here.
      await fetch(revocation, { method: "POST", mode: "no-cors", keepalive: true, body }).catch(() => null);
    }
    if (!end) return true;
    const page = new URL(end);
    // Cognito has a word of its own for the address to which the browser returns.
    const query = { client_id: access.client_id, post_logout_redirect_uri: here(), logout_uri: here(), ...(tokens.id && { id_token_hint: tokens.id }) };
    for (const [name, value] of Object.entries(query)) page.searchParams.set(name, value);
    location.assign(page);
    return false;
  } catch {
    return true;
  }
}

/** The displayed name of the signed-in user; null if nobody is signed in. */
export function whoIs(access) {
  if (!access.issuer) return localName();
  const claims = claimsOf(kept(TOKENS));
  // Cognito's `username` is as unreadable as its `sub`: a name or an address is better, where the token has one.
  return claims && (claims.name || claims.preferred_username || claims.email || claims.username || claims.sub || S.you);
}

/** The signed-in user's id, as votes and decisions have it; null if it is unknown. */
export const idOf = (access) => (access.issuer ? claimsOf(kept(TOKENS))?.sub : localName()?.split(";")[0]) || null;

/** The names of the signed-in user's scopes, without the deployment's prefix: `use`, `operate`, `audit`. They choose what
 *  the page offers; the API checks the token itself. */
export function scopesOf(access) {
  const said = (name) => new RegExp(`;${name}=([^;]*)`).exec(localName() || "")?.[1].split(",") || [];
  const claims = (access.issuer && claimsOf(kept(TOKENS))) || {};
  const names = access.issuer ? [claims.scope ?? claims.scp ?? []].flat().join(" ").split(" ") : said("scopes");
  const groups = access.issuer ? [claims["cognito:groups"] ?? []].flat() : said("groups");
  return new Set([...names.map((name) => name.replace(/^.*\//, "")), ...groups.map((name) => GROUP_SCOPES[name]).filter(Boolean)]);
}

/** Returns whether the user is in groups, of which a deployment's own may make operators. Only the API knows their names. */
export function isInGroups(access) {
  const { aud, scope, scp, amr, ...claims } = (access.issuer && claimsOf(kept(TOKENS))) || {};
  return Object.values(claims).some((value) => Array.isArray(value) && value.length > 0);
}

function claimsOf(tokens) {
  if (!tokens) return null;
  try {
    const bytes = atob(tokens.access.split(".")[1].replace(/-/g, "+").replace(/_/g, "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(bytes, (each) => each.charCodeAt(0))));
  } catch {
    return {};
  }
}

/** Returns the signed-in user's token, renewed before it expires. */
export function tokenOf(access) {
  let renewal = null;
  return async () => {
    if (!access.issuer) {
      const name = kept(NAME);
      return name && `dev:${name}`;
    }
    const tokens = kept(TOKENS);
    if (!tokens) return null;
    if (tokens.until - EARLY_MS < Date.now() && tokens.refresh) {
      renewal ||= renew(access, tokens.refresh).finally(() => { renewal = null; });
      await renewal;
      return kept(TOKENS)?.access;
    }
    return tokens.access;
  };
}
