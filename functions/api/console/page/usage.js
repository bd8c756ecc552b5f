import { all } from "./api.js";
import { Columns } from "./columns.js";
import { Empty, Loading, Main, Trouble, html, money, tokens, useLoaded, useState } from "./dom.js";
import { S } from "./strings.js";

const SPANS = [7, 30, 90];

const dayOf = (offset) => new Date(Date.now() - offset * 86400000).toISOString().slice(0, 10);

const totalOf = (row) => row.input_tokens + row.output_tokens;

/** One row for each day of the span, with sums of the measured values. */
export function byDay(rows, days, measure) {
  const found = [];
  for (let n = days - 1; n >= 0; n -= 1) {
    const day = dayOf(n);
    const parts = rows.filter((row) => row.day === day).map((row) => ({ agent: row.agent, value: measure(row) }));
    found.push({ day, parts, total: parts.reduce((sum, part) => sum + part.value, 0) });
  }
  return found;
}

/** Tokens and cost by day. */
export function Usage() {
  const [days, setDays] = useState(30);
  const [what, setWhat] = useState("tokens");
  const found = useLoaded(() => all(`/usage?from=${dayOf(days - 1)}&to=${dayOf(0)}`, 5000), [days]);
  const rows = found.value || [];
  const measure = what === "cost" ? (row) => Number(row.cost_usd || 0) : totalOf;
  const format = what === "cost" ? money : tokens;
  return html`<${Main} class="page"><h1>${S.usage.title}</h1><p class="quiet">${S.usage.lead}</p>
    <div class="actions" role="group" aria-label=${S.usage.by}>
      ${SPANS.map((n) => html`<button type="button" key=${n} aria-pressed=${days === n ? "true" : "false"} class="chip" onClick=${() => setDays(n)}>${n} ${S.usage.days}</button>`)}
      ${["tokens", "cost"].map((name) => html`<button type="button" key=${name} aria-pressed=${what === name ? "true" : "false"} class="chip" onClick=${() => setWhat(name)}>${S.usage[name]}</button>`)}
    </div>
    ${found.error && (found.error.status === 404 ? html`<${Empty} title=${S.usage.missing} />` : html`<${Trouble} error=${found.error} retry=${found.reload} />`)}
    ${found.loading && !found.value && html`<${Loading} />`}
    ${found.value && (rows.length === 0 ? html`<${Empty} title=${S.usage.none} />` : html`
      <${DaysOfAgents} days=${byDay(rows, days, measure)} format=${format} label=${S.usage.chart(S.usage[what])} agents=${[...new Set(rows.map((row) => row.agent))]} />
      <${Rows} rows=${rows} />`)}
  </${Main}>`;
}

function DaysOfAgents({ days, format, label, agents }) {
  const series = agents.map((agent, n) => ({ name: agent, look: `series-${n % 6}` }));
  const columns = days.map(({ day, parts, total }) => ({ name: day, total, parts: parts.map(({ agent, value }) => ({ ...series[agents.indexOf(agent)], value })) }));
  return html`<${Columns} columns=${columns} series=${series} format=${format} label=${label} />`;
}

function Rows({ rows }) {
  const sorted = [...rows].sort((a, b) => b.day.localeCompare(a.day));
  return html`<div class="table" tabindex="0"><table><thead><tr><th>${S.usage.day}</th><th>${S.usage.agent}</th><th>${S.usage.model}</th><th>${S.usage.kind}</th><th class="number">${S.usage.input}</th><th class="number">${S.usage.output}</th><th class="number">${S.usage.cost}</th></tr></thead>
    <tbody>${sorted.map((row, n) => html`<tr key=${n}><td>${row.day}</td><td>${row.agent}</td><td>${row.model}</td><td>${row.kind}</td><td class="number">${tokens(row.input_tokens)}</td><td class="number">${tokens(row.output_tokens)}</td><td class="number">${money(row.cost_usd)}</td></tr>`)}</tbody></table></div>`;
}
