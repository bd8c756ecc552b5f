import { id } from "./api.js";
import { DAY_MS } from "./decision.js";
import { Loading, Main, Time, Trouble, html } from "./dom.js";
import { saveAs } from "./files.js";
import { ownOf, recordOf } from "./names.js";
import { toJson } from "./numbers.js";
import { OnlyOperators, operatedAddress } from "./operate.js";
import { RunKeys, WishChoice, WishField, useItems, useRunKeys } from "./operations.js";
import { reveal } from "./seen.js";
import { S } from "./strings.js";

/** Rows of one page, and the pages that are read together: filters look through these. */
const AUDIT_ROWS = 100, AUDIT_PAGES = 10;
/** Days that are read if the address names none. */
const AUDIT_DAYS = 7;
/** Rows by the field that has their time. */
const BOOKS = { decisions: "decided_at", operations: "at" };
const BOUNDS = ["from", "to"];
/** Beginnings of formulas in a spreadsheet. */
const FORMULA = /^[=+\-@\t\r]/;

const auditAddress = (wishes) => `#/audit?${new URLSearchParams(Object.entries(wishes).filter(([, value]) => value))}`;

/** What a row tells, in words. */
function deedOf(row) {
  if (row.operation) return row.operation;
  const word = S.decide.decided[row.decision] || row.decision, what = row.changed ? S.audit.changed(word) : word;
  return row.settled ? what : S.audit.vote(what);
}

const actorsOf = (row) => [row.on_behalf_of, row.decided_by || row.by].filter(Boolean);

/** A value as a cell of CSV. A spreadsheet computes what begins like a formula, and people wrote it. */
function cellOf(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return `"${(FORMULA.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}

/** Rows as CSV: a column for each field that a row has. */
export function csvOf(rows) {
  const fields = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return [fields, ...rows.map((row) => fields.map((field) => row[field]))].map((line) => `${line.map(cellOf).join(",")}\r\n`).join("");
}

const FILES = { CSV: ["text/csv", csvOf], JSON: ["application/json", (rows) => toJson(rows, 1)] };

/** Who decided what, or what operators did. `query`: the filters in the address; `here`: the scopes are known. */
export function Audit({ query, here, scopes }) {
  const given = recordOf([...new URLSearchParams(query)]);
  const book = ownOf(BOOKS, given.book) ? given.book : "decisions";
  const wishes = { from: new Date(Date.now() - (AUDIT_DAYS - 1) * DAY_MS).toISOString().slice(0, 10), ...given };
  const mayRead = !here || scopes.has("audit");
  return html`<${Main} class="page wide operations"><h1>${S.nav.audit}</h1>
    ${mayRead ? html`<${Book} key=${book} book=${book} wishes=${wishes} links=${scopes.has("operate")} />` : html`<${OnlyAuditors} />`}</${Main}>`;
}

const OnlyAuditors = () => html`<${OnlyOperators} title=${S.audit.refused} scope="layover/audit" />`;

function Book({ book, wishes, links }) {
  const days = BOUNDS.filter((name) => wishes[name]).map((name) => `&${name}=${id(wishes[name])}`).join("");
  const path = book === "decisions" ? "/audit/decisions" : "/audit/operations";
  const read = useItems(`${path}?limit=${AUDIT_ROWS}${days}`, AUDIT_PAGES);
  useRunKeys();
  if (read.error?.status === 403) return html`<${OnlyAuditors} />`;
  const of = { kind: deedOf, agent: (row) => row.agent, tool_name: (row) => row.tool_name, owner: (row) => row.owner };
  const rows = read.items.filter((row) => Object.entries(of).every(([name, value]) => !wishes[name] || value(row) === wishes[name]) && (!wishes.by || actorsOf(row).includes(wishes.by)));
  const go = (more) => location.replace(auditAddress({ ...wishes, ...more }));
  const put = (name, value) => { if ((wishes[name] || "") !== value) go({ [name]: value }); };
  const found = (name) => [...new Set(read.items.map(of[name]).filter(Boolean))].sort();
  return html`<div class="actions" role="group" aria-label=${S.nav.audit}>${Object.keys(BOOKS).map((each) => html`<button type="button" key=${each} class="chip" aria-pressed=${each === book ? "true" : "false"} onClick=${() => go({ book: each, kind: "", tool_name: "" })}>${S.audit.books[each]}</button>`)}
      <button type="button" class="chip" disabled=${read.loading} onClick=${read.reload}>${S.operations.again}</button></div>
    <form class="filters" role="search" aria-label=${S.inbox.filter} onSubmit=${(e) => e.preventDefault()}>
      ${Object.keys(of).filter((name) => name !== "tool_name" || book === "decisions").map((name) => html`<${WishChoice} key=${name} name=${name} value=${wishes[name] || ""} put=${put} values=${found(name)} />`)}
      ${["by", ...BOUNDS].map((name) => html`<${WishField} key=${name} name=${name} type=${name === "by" ? "text" : "date"} value=${wishes[name] || ""} put=${put} />`)}</form>
    <${Trouble} error=${read.error} retry=${read.reload} />
    ${rows.length > 0 && html`<${AuditTable} rows=${rows} at=${BOOKS[book]} links=${links} />`}
    ${read.loading && html`<${Loading} />`}
    ${!read.loading && html`<p class="quiet small" role="status">${S.audit.counted(rows.length, read.items.length)}</p>`}
    <div class="actions">${!read.loading && read.cursor && html`<button type="button" onClick=${read.more}>${S.audit.more}</button>`}
      ${rows.length > 0 && Object.entries(FILES).map(([name, [type, text]]) => html`<button type="button" key=${name} onClick=${() => saveAs(`audit-${book}.${name.toLowerCase()}`, new Blob([text(rows)], { type }))}>${S.audit.save} ${name}</button>`)}</div>
    ${rows.length > 0 && html`<${RunKeys} count=${3} />`}`;
}

function AuditTable({ rows, at, links }) {
  return html`<div class="table" tabindex="0"><table class="runs" aria-label=${S.nav.audit}><thead><tr>${[S.audit.at, S.operations.filters.kind, S.operations.filters.by, S.operations.columns.run].map((each) => html`<th key=${each} scope="col">${each}</th>`)}</tr></thead>
    <tbody>${rows.map((row, n) => html`<${AuditedRow} key=${n} row=${row} at=${row[at]} links=${links} />`)}</tbody></table></div>`;
}

function AuditedRow({ row, at, links }) {
  const [person, through] = actorsOf(row);
  const notes = [row.outcome && row.outcome !== "done" && `${row.outcome}${row.problem ? ` (${row.problem})` : ""}`, row.reason].filter(Boolean).join(": ");
  const run = row.run_id && html`<code>${row.run_id}</code>`;
  return html`<tr><td><${Time} at=${at} exact seconds /></td>
    <td><span tabindex=${run && links ? undefined : "-1"}><strong>${deedOf(row)}</strong>${row.tool_name && html` <code>${row.tool_name}</code>`}</span>${notes && html`<span class="quiet small run-whose" dir="auto">${reveal(notes)}</span>`}</td>
    <td class="run-name">${person}${(through || row.via) && html`<span class="quiet small run-whose">${[through, row.via].filter(Boolean).join(", ")}</span>`}</td>
    <td>${run && links ? html`<a href=${operatedAddress(row.run_id)}>${run}</a>` : run}${row.owner && html`<span class="quiet small run-whose">${row.agent ? S.operations.whose(row.agent, row.owner) : row.owner}</span>`}</td></tr>`;
}
