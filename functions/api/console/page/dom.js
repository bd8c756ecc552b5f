import { h, render } from "./vendor/preact.mjs";
import { useCallback, useEffect, useErrorBoundary, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";
import htm from "./vendor/htm.mjs";
import { toJson } from "./numbers.js";
import { reveal, show, showJson } from "./seen.js";
import { S } from "./strings.js";

const seen = (child) => (typeof child === "string" ? reveal(child) : Array.isArray(child) ? child.map(seen) : child);

/** Elements, in whose texts each character can be seen: models and other people wrote many of them. */
export const html = htm.bind((type, props, ...children) => h(type, props, ...children.map(seen)));
export const paint = render;

/** The result of a promise: `{value, error, loading, reload, set}`; requested again when `keys` change. */
export function useLoaded(load, keys) {
  const [state, setState] = useState({ loading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    let current = true;
    setState((old) => ({ ...old, loading: true, error: null }));
    load().then(
      (value) => current && setState({ value, loading: false }),
      (error) => current && setState((old) => ({ ...old, error, loading: false })),
    );
    return () => { current = false; };
  }, [...keys, round]);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  const set = useCallback((value) => setState({ value, loading: false }), []);
  return { ...state, reload, set };
}

/** Runs `act` with `busy` set, and keeps its error until the next run or `clear()`. */
export function useAction() {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const run = async (act) => {
    setBusy(true);
    setError(null);
    try {
      return await act();
    } catch (problem) {
      setError(problem);
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  const clear = () => setError(null);
  return { busy, error, run, clear };
}

const PATHS = {
  send: "M4 12l16-8-6 16-3-7z",
  stop: "M7 7h10v10H7z",
  clip: "M8 12l6-6a3 3 0 014 4l-8 8a5 5 0 01-7-7l8-8",
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  talk: "M4 5h16v11h-9l-4 4v-4H4z",
  inbox: "M4 13h4l2 3h4l2-3h4M4 13l3-8h10l3 8v6H4z",
  memory: "M12 4a5 5 0 015 5c3 1 3 6 0 7a5 5 0 01-10 0c-3-1-3-6 0-7a5 5 0 015-5zM12 4v16",
  chart: "M5 20V10M12 20V4M19 20v-7",
  plug: "M9 3v5M15 3v5M6 8h12v3a6 6 0 01-12 0zM12 17v4",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 13l4 4L19 7",
  trash: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
  pen: "M4 20l1-5L16 4l4 4L9 19z",
  again: "M4 12a8 8 0 0114-5l2 2M20 4v5h-5M20 12a8 8 0 01-14 5l-2-2M4 20v-5h5",
  left: "M15 5l-7 7 7 7",
  right: "M9 5l7 7-7 7",
  close: "M6 6l12 12M18 6L6 18",
  up: "M7 11v9H4v-9zM7 11l4-7c1.5 0 2.5 1 2.2 2.7L12.6 10H18a2 2 0 012 2.4l-1.3 6a2 2 0 01-2 1.6H7",
  down: "M7 13V4H4v9zM7 13l4 7c1.5 0 2.5-1 2.2-2.7L12.6 14H18a2 2 0 002-2.4l-1.3-6a2 2 0 00-2-1.6H7",
  versus: "M4 5h6v14H4zM14 5h6v14h-6z",
  gauge: "M4 18a9 9 0 1116 0M12 15l4-5",
  clock: "M12 7v5l3 2M12 3a9 9 0 100 18 9 9 0 000-18z",
  file: "M7 3h7l4 4v14H7zM14 3v4h4",
};

export const Icon = ({ name }) => html`
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;

export const IconButton = ({ icon, label, ...more }) => html`
  <button type="button" class="icon-button" aria-label=${label} title=${label} ...${more}><${Icon} name=${icon} /></button>`;

/** Copies a text, and says so for a moment. A page without a safe connection has no clipboard. */
export function Copy({ text, label = S.copy.copy }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    const timer = done && setTimeout(() => setDone(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  if (!navigator.clipboard) return null;
  const copy = () => navigator.clipboard.writeText(text()).then(() => setDone(true), () => {});
  return html`<button type="button" class="icon-button copy" aria-label=${done ? S.copy.done : label} title=${done ? S.copy.done : label} onClick=${copy}><${Icon} name=${done ? "check" : "copy"} /></button>`;
}

export const Mark = () => html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" /><path d="M10 8v16h12" /><circle cx="21" cy="12" r="3" /></svg>`;

/** The name of what is wrong: a parameter's, or a field's below the request's own. */
const placeIn = (loc) => loc.slice(loc[0] === "query" ? 1 : 2);

/** A problem as a sentence, with what can be done about it. */
export function Trouble({ error, retry }) {
  if (!error) return null;
  const fields = (error.body?.errors || []).filter((e) => e.msg !== error.message).map((e) => `${placeIn(e.loc || []).join(".") || S.problem.value}: ${e.msg}`);
  return html`<div class="trouble" role="alert">
    <p>${error.message}</p>
    ${fields.length > 0 && html`<ul>${fields.map((text) => html`<li key=${text}>${text}</li>`)}</ul>`}
    ${error.body?.request_id && html`<p class="quiet small">${S.problem.request} <code>${error.body.request_id}</code></p>`}
    ${retry && html`<button type="button" class="plain" onClick=${retry}>${S.retry}</button>`}
  </div>`;
}

/** The main part of a page, which gets the focus after a jump. */
export const Main = ({ children, ...more }) => html`<main id="main" tabindex="-1" ...${more}>${children}</main>`;

/** Its children, or the error that prevents showing them. */
export function Guard({ children }) {
  const [fault, again] = useErrorBoundary((error) => console.info(error));
  return fault ? html`<${Main} class="page"><${Trouble} error=${{ message: S.problem.crashed }} retry=${again} /></${Main}>` : children;
}

export const Loading = () => html`<p class="quiet" role="status">${S.loading}</p>`;

export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2>${children}</div>`;
}

/** A value as a person reads it: text bare, anything else as JSON. */
export function shown(value) {
  return typeof value === "string" ? value : toJson(value, 2);
}

/** A value as a person decides by it. */
export const decidable = (value) => (typeof value === "string" ? show(value) : showJson(toJson(value, 2)));

/** A short time for lists, with a long one as its title. `exact`: with the hour, also of another day; `seconds`: with them. */
export function Time({ at, exact, seconds }) {
  const date = new Date(at);
  const today = date.toDateString() === new Date().toDateString();
  const hour = today || exact ? { hour: "2-digit", minute: "2-digit", ...(seconds ? { second: "2-digit" } : {}) } : {};
  const short = today ? hour : { day: "numeric", month: "short", ...hour };
  return html`<time dateTime=${at} title=${date.toLocaleString()}>${new Intl.DateTimeFormat(undefined, short).format(date)}</time>`;
}

/** The day of a thread's last change, as the list names it. */
export function threadDay(at, now = new Date()) {
  const date = new Date(at), day = (each) => new Date(each.getFullYear(), each.getMonth(), each.getDate());
  const days = Math.round((day(now) - day(date)) / 86_400_000);
  if (days < 1) return S.nav.days.today;
  if (days === 1) return S.nav.days.yesterday;
  if (days < 7) return S.nav.days.week;
  return date.toLocaleDateString(undefined, { month: "long", year: date.getFullYear() === now.getFullYear() ? undefined : "numeric" });
}

export function tokens(count) {
  return new Intl.NumberFormat().format(count || 0);
}

export function money(cost) {
  if (cost === null || cost === undefined) return S.unpriced;
  const value = Number(cost);
  return `$${value >= 1 ? value.toFixed(2) : value.toPrecision(2).replace(/0+$/, "").replace(/\.$/, "")}`;
}

export function duration(ms) {
  if (ms < 999.5) return `${Math.round(Math.max(0, ms))} ms`;
  if (ms < 59950) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000), min = Math.round(s / 60);
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (min < 1440) return `${Math.floor(min / 60)} h ${min % 60} min`;
  return `${Math.round(min / 1440)} d`;
}

export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState };
