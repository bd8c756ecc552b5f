import { html } from "./dom.js";

const WIDTH = 600, HEIGHT = 120;

/** A column for each span of time, of stacked parts. `columns`: `{name, total, parts: [{name, look, value}]}`;
 * `series`: `{name, look}` of each kind of part; a look is a class of console.css. */
export function Columns({ columns, series, format, label }) {
  const most = Math.max(...columns.map((column) => column.total)) || 1;
  const width = WIDTH / columns.length;
  const sum = columns.reduce((all, column) => all + column.total, 0);
  return html`<figure class="chart card"><figcaption><span>${label}</span><strong>${format(sum)}</strong></figcaption>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${label}: ${format(sum)}`}>
      ${columns.map((column, n) => {
        let top = HEIGHT;
        return column.parts.map((part, m) => {
          const height = (part.value / most) * (HEIGHT - 6);
          top -= height;
          return html`<rect key=${`${n} ${m}`} class=${part.look} x=${n * width + width * 0.12} y=${top} width=${width * 0.76} height=${height}><title>${column.name}, ${part.name}: ${format(part.value)}</title></rect>`;
        });
      })}
    </svg>
    <p class="small quiet axis"><span>${columns[0].name}</span><span>${columns.at(-1).name}</span></p>
    <ul class="legend small">${series.map(({ name, look }) => html`<li key=${name}><svg viewBox="0 0 10 10" aria-hidden="true"><rect class=${look} width="10" height="10" rx="2" /></svg> ${name}</li>`)}</ul>
  </figure>`;
}
