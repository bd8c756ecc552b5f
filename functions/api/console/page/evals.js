import { id } from "./api.js";
import { piecesOf, differencesOf } from "./differences.js";
import { Empty, Loading, Main, Trouble, duration, html, money, shown, tokens, useEffect, useMemo, useRef, useState } from "./dom.js";
import { NotComparable, comparisonOf, evaluationOf, isApart } from "./evaluation.js";
import { hasFiles } from "./files.js";
import { toJson } from "./numbers.js";
import { S } from "./strings.js";

const SIDES = ["before", "after"];
const KINDS = ["broken", "flaky", "fixed", "same", "new", "gone"];
const MAX_BYTES = 64 * 1024 * 1024;
const CASES_AT_ONCE = 100;
const SETTLED_MS = 200;
const WHEN = { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" };

/** What was chosen for both sides, for as long as the console is open: `{name, evaluation}`, `{name, error}` or `{name}`,
 *  which is being read. */
export const NOTHING_CHOSEN = { before: null, after: null };

async function readFile(file) {
  if (file.size > MAX_BYTES) throw new NotComparable(S.evals.large);
  let text;
  try {
    text = await file.text();
  } catch {
    throw new NotComparable(S.evals.unreadable);
  }
  return evaluationOf(text);
}

async function choiceOf(file) {
  try {
    return { name: file.name, evaluation: await readFile(file) };
  } catch (error) {
    return { name: file.name, error: error instanceof NotComparable ? error : new NotComparable(S.evals.damaged(file.name)) };
  }
}

const timeOf = (choice) => (choice.evaluation?.at ? Date.parse(choice.evaluation.at) : 0);

/** Compares two evaluations, from files that only this page reads. `rest`: the filter in the address, `KIND/WORDS`. */
export function Evals({ chosen, choose, rest }) {
  const [over, setOver] = useState(false);
  const [many, setMany] = useState(false);
  const take = async (files, side) => {
    const mine = {};
    setMany(files.length > 2);
    if (!files.length || files.length > 2) return;
    const sides = files.length === 2 ? SIDES : [side || (chosen.before && !chosen.after ? "after" : "before")];
    choose((old) => ({ ...old, ...Object.fromEntries(sides.map((each, n) => [each, { name: files[n].name, mine }])) }));
    const choices = await Promise.all([...files].map(choiceOf));
    if (choices.length === 2) choices.sort((a, b) => timeOf(a) - timeOf(b));
    // A file that was chosen meanwhile stays.
    choose((old) => ({ ...old, ...Object.fromEntries(sides.map((each, n) => [each, old[each]?.mine === mine ? choices[n] : old[each]])) }));
  };
  const drag = (event) => { if (hasFiles(event)) { event.preventDefault(); setOver(true); } };
  const leave = (event) => { if (!event.currentTarget.contains(event.relatedTarget)) setOver(false); };
  const drop = (event) => { if (hasFiles(event)) { event.preventDefault(); setOver(false); take(event.dataTransfer.files); } };
  const [before, after] = SIDES.map((side) => chosen[side]?.evaluation);
  return html`<${Main} class="page wide" onDragOver=${drag} onDragLeave=${leave} onDrop=${drop}>
    <h1>${S.evals.title}</h1><p class="quiet">${S.evals.lead}</p>
    <div class=${`versus slots${over ? " over" : ""}`}>${SIDES.map((side) => html`<${Slot} key=${side} side=${side} choice=${chosen[side]} take=${(files) => take(files, side)} />`)}</div>
    ${many && html`<${Trouble} error=${{ message: S.evals.tooMany }} />`}
    ${(chosen.before || chosen.after) && html`<p class="actions"><button type="button" onClick=${() => choose((old) => ({ before: old.after, after: old.before }))}>${S.evals.swap}</button>
      <button type="button" onClick=${() => { setMany(false); choose(NOTHING_CHOSEN); }}>${S.evals.clear}</button></p>`}
    ${!chosen.before && !chosen.after && html`<${Empty} title=${S.evals.none}><p>${S.evals.how}</p><pre tabindex="0"><code>${S.evals.command}</code></pre></${Empty}>`}
    ${before && after && html`<${Comparison} before=${before} after=${after} rest=${rest} />`}
  </${Main}>`;
}

function Slot({ side, choice, take }) {
  const picker = useRef(null);
  return html`<section class="card slot" aria-label=${S.evals[side]}><p class="label">${S.evals[side]}</p>
    ${choice && html`<p class="slot-name">${choice.name}</p>`}
    ${choice && !choice.evaluation && !choice.error && html`<${Loading} />`}
    <${Trouble} error=${choice?.error} />
    <button type="button" aria-label=${`${S.evals[side]}: ${S.evals.choose}`} onClick=${() => picker.current.click()}>${S.evals.choose}</button>
    <input ref=${picker} type="file" accept=".json,application/json" class="hidden" tabindex="-1" aria-label=${S.evals[side]} onChange=${(e) => { take([...e.currentTarget.files]); e.currentTarget.value = ""; }} />
  </section>`;
}

const percent = (share) => `${Math.round(share * 100)} %`;
const range = ([low, high]) => S.evals.range(percent(low), percent(high));

function Comparison({ before, after, rest }) {
  const found = useMemo(() => comparisonOf(before, after), [before, after]);
  const [kind, search] = filterIn(rest);
  const [draft, setDraft] = useState(search);
  const [most, setMost] = useState(CASES_AT_ONCE);
  const written = useRef(search);
  // The address follows what is typed, and what is typed follows the address where the browser goes back.
  useEffect(() => { if (search !== written.current) { written.current = search; setDraft(search); } }, [search]);
  useEffect(() => {
    if (draft === written.current) return undefined;
    const timer = setTimeout(() => { written.current = draft; address(kind, draft); }, SETTLED_MS);
    return () => clearTimeout(timer);
  }, [draft, kind]);
  useEffect(() => setMost(CASES_AT_ONCE), [kind, draft]);
  const words = draft.trim().toLowerCase();
  const named = found.filter((each) => each.name.toLowerCase().includes(words));
  const listed = named.filter((each) => kind === "all" || each.kind === kind);
  const choose = (one) => { written.current = draft; address(one, draft); };
  return html`<${Heads} before=${before} after=${after} />
    <p class="quiet small">${isApart(before, after) ? S.evals.apart : S.evals.overlap}</p>
    <h2>${S.evals.cases}</h2>
    <div class="actions" role="group" aria-label=${S.evals.show}>${["all", ...KINDS].map((one) => html`<button type="button" key=${one} class="chip" aria-pressed=${kind === one ? "true" : "false"} onClick=${() => choose(one)}>${S.evals.kinds[one]} ${one === "all" ? named.length : named.filter((each) => each.kind === one).length}</button>`)}</div>
    <div class="field narrow"><label for="case-search">${S.evals.search}</label><input id="case-search" type="search" value=${draft} onInput=${(e) => setDraft(e.currentTarget.value)} /></div>
    <p class="hidden" role="status">${S.evals.listed(listed.length)}</p>
    ${listed.length === 0 && html`<${Empty} title=${S.evals.noMatch} />`}
    ${listed.slice(0, most).map((each) => html`<${ComparedCase} key=${each.name} compared=${each} />`)}
    ${listed.length > most && html`<button type="button" onClick=${() => setMost(most + CASES_AT_ONCE)}>${S.evals.more(listed.length - most)}</button>`}`;
}

/** The kind and the words of the filter in an address. */
function filterIn(rest) {
  const cut = rest.indexOf("/"), kind = cut < 0 ? rest : rest.slice(0, cut);
  return [KINDS.includes(kind) ? kind : "all", cut < 0 ? "" : rest.slice(cut + 1)];
}

const address = (kind, words) => location.replace(`#/evals/${kind}${words ? `/${id(words)}` : ""}`);

function Heads({ before, after }) {
  const row = (name, of, compares) => {
    const values = [before, after].map(of);
    const differs = compares && toJson(values[0]) !== toJson(values[1]);
    return html`<tr key=${name} class=${differs ? "differs" : ""}><th scope="row">${S.evals.heads[name]}</th>${values.map((value, n) => html`<td key=${n}>${value || S.evals.unknown}</td>`)}</tr>`;
  };
  const counted = (value) => (value === null ? "" : tokens(value));
  return html`<div class="table" tabindex="0"><table class="heads"><thead><tr><td></td>${SIDES.map((side) => html`<th key=${side} scope="col">${S.evals[side]}</th>`)}</tr></thead><tbody>
    ${row("held", (each) => html`<strong>${S.evals.of(each.held, each.cases.size)}</strong>, ${percent(each.share)}<${Bar} shares=${each} />`)}
    ${row("interval", (each) => range(each.interval))}
    ${row("at", (each) => each.at && html`<time dateTime=${each.at}>${new Intl.DateTimeFormat(undefined, WHEN).format(new Date(each.at))}</time>`)}
    ${row("agent", (each) => each.agent, true)}${row("definition", (each) => each.definition, true)}
    ${row("model", (each) => each.model || S.evals.script, true)}${row("judges", (each) => each.judges.join(", ") || S.evals.noJudge, true)}
    ${row("stubs", (each) => S.evals.stubs[String(each.stubsOnly)], true)}${row("source", (each) => each.source, true)}${row("commit", (each) => each.commit, true)}
    ${row("runs", (each) => counted(each.runs))}${row("tokens", (each) => counted(each.tokens))}
    ${row("cost", (each) => money(each.cost))}${row("seconds", (each) => each.seconds !== null && duration(each.seconds * 1000))}
  </tbody></table></div>`;
}

/** A share and its interval on a line from 0 to 100 %. */
function Bar({ shares }) {
  const [low, high] = shares.interval;
  return html`<svg class="span-bar share-bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
    <rect class="track" x="0" y="2" width="100" height="4" /><rect class="interval" x=${low * 100} y="2" width=${Math.max(0.5, (high - low) * 100)} height="4" /><rect class="point" x=${Math.min(99, shares.share * 100)} y="0" width="1" height="8" /></svg>`;
}

const endWord = (side) => {
  if (!side) return S.evals.absent;
  return side.runs.length > 1 ? S.evals.of(side.holding, side.runs.length) : S.evals.ends[side.holding ? "held" : "failed"];
};

function ComparedCase({ compared }) {
  const [open, setOpen] = useState(false);
  const { name, kind, before, after } = compared;
  return html`<details class="card case" onToggle=${(e) => setOpen(e.currentTarget.open)}>
    <summary><span class=${`tag change-${kind}`}>${S.evals.kinds[kind]}</span> <span class="case-name">${name}</span><span class="quiet small">${endWord(before)} → ${endWord(after)}</span></summary>
    ${open && html`<${CaseDetails} compared=${compared} />`}
  </details>`;
}

function CaseDetails({ compared }) {
  const { name, before, after, altered } = compared;
  const count = Math.max(before?.runs.length || 0, after?.runs.length || 0);
  const [at, setAt] = useState(() => firstOf(before, after, count));
  const sides = [before, after], runs = sides.map((side) => side?.runs[at]);
  const word = (run) => S.evals.ends[run ? (run.holds ? "held" : "failed") : "absent"];
  return html`<div>
    ${altered && html`<p class="small note">${S.evals.altered}</p>`}
    ${count > 1 && before && after && html`<p class="quiet small note">${S.evals.intervals(range(before.interval), range(after.interval))} ${isApart(before, after) ? S.evals.apart : S.evals.overlap}</p>`}
    <p class="label">${S.evals.input}</p>
    ${(altered && before.input !== after.input ? sides : [after || before]).map((side, n) => html`<p key=${n} class="typed">${side.input || S.evals.noText}</p>`)}
    ${count > 1 && html`<div class="field narrow"><label for=${`run-of-${name}`}>${S.evals.run}</label><select id=${`run-of-${name}`} value=${String(at)} onChange=${(e) => setAt(Number(e.currentTarget.value))}>
      ${Array.from({ length: count }, (_, n) => html`<option key=${n} value=${String(n)}>${n + 1}: ${word(before?.runs[n])} → ${word(after?.runs[n])}</option>`)}</select></div>`}
    <div class="versus">${SIDES.map((side, n) => html`<section key=${side} aria-label=${`${S.evals[side]}: ${name}`}><h3>${S.evals[side]}</h3>
      ${runs[n] ? html`<${RunOfCase} run=${runs[n]} other=${runs[1 - n]} side=${side} />` : html`<p class="quiet">${S.evals.absent}</p>`}</section>`)}</div>
  </div>`;
}

/** The run that is shown first: one that fails now, and else one that failed before. */
function firstOf(before, after, count) {
  const numbers = Array.from({ length: count }, (_, n) => n);
  const failing = (side) => numbers.find((n) => side?.runs[n] && !side.runs[n].holds);
  return failing(after) ?? failing(before) ?? 0;
}

/** A text with what the other side does not have. */
function Marked({ text, other, side }) {
  const pieces = useMemo(() => (side === "before" ? piecesOf(text, other).one : piecesOf(other, text).other), [text, other, side]);
  const tag = side === "before" ? "del" : "ins";
  return html`<span class="marked">${pieces.map((piece, n) => (piece.differs ? html`<${tag} key=${n}>${piece.text}</${tag}>` : piece.text))}</span>`;
}

const callKey = (call) => `${call.name} ${toJson(call.args)}`;
const verdictKey = (verdict) => `${verdict.judge} ${verdict.rule}`;

function RunOfCase({ run, other, side }) {
  const against = (text, of) => (other ? html`<${Marked} text=${text} other=${of(other)} side=${side} />` : text);
  const jsonOf = (value) => (value === null ? "" : shown(value));
  return html`<p>${S.evals.ends[run.holds ? "held" : "failed"]} <span class="quiet small">${factsOfRun(run)}</span></p>
    ${run.failures.length > 0 && html`<div class="trouble"><ul>${run.failures.map((each, n) => html`<li key=${n}>${each}</li>`)}</ul></div>`}
    <p class="label">${S.evals.reply}</p><p class="typed">${run.text ? against(run.text, (each) => each.text) : html`<span class="quiet">${S.evals.noText}</span>`}</p>
    ${run.output !== null && html`<p class="label">${S.chat.output}</p><pre tabindex="0"><code>${against(jsonOf(run.output), (each) => jsonOf(each.output))}</code></pre>`}
    <p class="label">${S.evals.calls}</p><${CallsOfRun} run=${run} other=${other} side=${side} />
    ${run.approvals.length > 0 && html`<p class="label">${S.evals.approvals}</p><ul class="small">${run.approvals.map((each, n) => html`<li key=${n}><code>${each.tool}</code> ${S.evals.decisions[each.decision]}</li>`)}</ul>`}
    ${run.verdicts.length > 0 && html`<p class="label">${S.evals.verdicts}</p><ul class="verdicts">${run.verdicts.map((each, n) => html`<${VerdictOfRun} key=${n} verdict=${each} other=${other} />`)}</ul>`}`;
}

const factsOfRun = (run) => [
  run.steps !== null && S.evals.steps(run.steps), run.tokens !== null && S.chat.tokens(tokens(run.tokens)), run.cost !== null && money(run.cost), run.seconds !== null && duration(run.seconds * 1000),
].filter(Boolean).join(" · ");

function CallsOfRun({ run, other, side }) {
  if (!run.calls.length) return html`<p class="quiet small">${S.evals.noCalls}</p>`;
  const lists = side === "before" ? [run.calls, other?.calls || []] : [other?.calls || [], run.calls];
  const own = side === "before" ? "one" : "other", their = side === "before" ? "other" : "one";
  const mine = differencesOf(...lists, callKey).filter((each) => each[own]);
  return mine.map((each, n) => {
    const call = each[own], only = Boolean(other) && each.kind !== "same";
    const result = other && each[their] && toJson(call.result) !== toJson(each[their].result);
    return html`<div key=${n} class=${`call${call.isError ? " failed" : ""}${only ? " differs" : ""}`}><details open=${only || result}><summary class="call-head"><code>${call.name}</code><span class="state small">${[only && S.evals.only, result && S.evals.otherResult, call.isError && S.call.failed].filter(Boolean).join(", ")}</span></summary>
      <p class="label">${S.call.args}</p><pre tabindex="0"><code>${shown(call.args)}</code></pre>
      <p class="label">${S.call.result}</p><pre tabindex="0"><code>${result ? html`<${Marked} text=${shown(call.result)} other=${shown(each[their].result)} side=${side} />` : shown(call.result)}</code></pre></details></div>`;
  });
}

function VerdictOfRun({ verdict, other }) {
  const theirs = other?.verdicts.find((each) => verdictKey(each) === verdictKey(verdict));
  const differs = theirs && theirs.holds !== verdict.holds;
  return html`<li class=${differs ? "differs" : ""}><strong>${S.evals.judged[String(verdict.holds)]}</strong>${differs && html` <span class="tag">${S.evals.otherwise}</span>`} ${verdict.rule}
    <p class="quiet small">${verdict.judge}: ${verdict.reason}</p></li>`;
}
