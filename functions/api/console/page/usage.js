import { all } from "./api.js";
import { Empty, Loading, Main, Trouble, html, money, tokens, useLoaded, useState } from "./dom.js";
import { S } from "./strings.js";

const SPANS = [7, 30, 90];
const HEIGHT = 120;

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
      <${Chart} days=${byDay(rows, days, measure)} format=${format} label=${S.usage.chart(S.usage[what])} agents=${[...new Set(rows.map((row) => row.agent))]} />
      <${Rows} rows=${rows} />`)}
  </${Main}>`;
}

function Chart({ days, format, label, agents }) {
  const most = Math.max(...days.map((day) => day.total)) || 1;
  const width = 600 / days.length;
  const sum = days.reduce((all, day) => all + day.total, 0);
  return html`<figure class="chart card"><figcaption><span>${label}</span><strong>${format(sum)}</strong></figcaption>
    <svg viewBox=${`0 0 600 ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${label}: ${format(sum)}`}>
      ${days.map((day, n) => {
        let top = HEIGHT;
        return day.parts.map((part, m) => {
          const height = (part.value / most) * (HEIGHT - 6);
          top -= height;
          return html`<rect key=${`${n} ${m}`} class=${`series-${agents.indexOf(part.agent) % 6}`} x=${n * width + width * 0.12} y=${top} width=${width * 0.76} height=${height}><title>${day.day}, ${part.agent}: ${format(part.value)}</title></rect>`;
        });
      })}
    </svg>
    <p class="small quiet axis"><span>${days[0].day}</span><span>${days.at(-1).day}</span></p>
    <ul class="legend small">${agents.map((agent, n) => html`<li key=${agent}><svg viewBox="0 0 10 10" aria-hidden="true"><rect class=${`series-${n % 6}`} width="10" height="10" rx="2" /></svg> ${agent}</li>`)}</ul>
  </figure>`;
}

function Rows({ rows }) {
  const sorted = [...rows].sort((a, b) => b.day.localeCompare(a.day));
  return html`<div class="table" tabindex="0"><table><thead><tr><th>${S.usage.day}</th><th>${S.usage.agent}</th><th>${S.usage.model}</th><th>${S.usage.kind}</th><th class="number">${S.usage.input}</th><th class="number">${S.usage.output}</th><th class="number">${S.usage.cost}</th></tr></thead>
    <tbody>${sorted.map((row, n) => html`<tr key=${n}><td>${row.day}</td><td>${row.agent}</td><td>${row.model}</td><td>${row.kind}</td><td class="number">${tokens(row.input_tokens)}</td><td class="number">${tokens(row.output_tokens)}</td><td class="number">${money(row.cost_usd)}</td></tr>`)}</tbody></table></div>`;
}
