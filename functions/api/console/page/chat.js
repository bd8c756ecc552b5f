import { upload } from "./api.js";
import { askedOf, leafOf, textOf } from "./branches.js";
import { Blocks } from "./calls.js";
import { begin, useConversation } from "./conversation.js";
import { Copy, Empty, Icon, IconButton, Loading, Main, Trouble, html, money, tokens, useAction, useEffect, useMemo, useRef, useState } from "./dom.js";
import { applyEvent, newView, onlyWaits, viewOfMessages } from "./events.js";
import { Opinion, Thumbs, useOpinion } from "./feedback.js";
import { FileChip, hasFiles } from "./files.js";
import { ThreadMemory } from "./memory.js";
import { toJson } from "./numbers.js";
import { S } from "./strings.js";
import { Timeline, eventsOf } from "./timeline.js";

const NEAR_END = 120;

/** A thread: what was said, what is being said, and the composer. `listed`: it as the list has it, which shows what
 *  other tabs did; `me`: the user's id. */
export function Chat({ threadId, listed, changed, me }) {
  const talk = useConversation(threadId, changed);
  useEffect(() => {
    if (!talk.thread || talk.error || !listed) return;
    const another = listed.active_run && listed.active_run.id !== talk.live?.runId;
    const newer = Date.parse(listed.updated_at) > Date.parse(talk.thread.updated_at);
    if (another || (!talk.live && newer)) talk.reload();
  }, [listed?.active_run?.id, listed?.updated_at]);
  const [editing, setEditing] = useState(null);
  const [panel, setPanel] = useState(null);
  const [sent, setSent] = useState(0);
  const action = useAction();
  if (talk.loading) return html`<${Main} class="page"><${Loading} /></${Main}>`;
  if (!talk.thread) return html`<${Main} class="page"><${Trouble} error=${talk.error} retry=${() => talk.reload()} /></${Main}>`;
  const leaveEdit = () => setEditing(null);
  const send = (input) => action.run(async () => {
    setSent((n) => n + 1);
    await talk.send(input, editing ? editing.input.parent_id : undefined);
    setEditing(null);
    return true;
  });
  const busy = Boolean(talk.live) && talk.live.view.status === "running" && !onlyWaits(talk.live.view);
  return html`<${Main} class="chat">
    <header class="bar"><h1 dir="auto">${talk.thread.title || S.nav.fallback(talk.thread.agent, new Date(talk.thread.created_at))}</h1><span class="quiet small">${talk.thread.agent}</span>
      <${IconButton} icon="memory" label=${S.chat.memory} aria-expanded=${panel === "memory" ? "true" : "false"} onClick=${() => setPanel(panel === "memory" ? null : "memory")} /></header>
    ${!talk.connected && html`<p class="banner" role="status">${S.chat.reconnecting}</p>`}
    ${panel === "memory" && html`<aside class="panel" aria-label=${S.chat.memory}><${IconButton} icon="close" label=${S.chat.hide} onClick=${() => setPanel(null)} />
      <h2>${S.chat.memory}</h2><${ThreadMemory} threadId=${threadId} stamp=${talk.messages.length} /></aside>`}
    <${Transcript} talk=${talk} sent=${sent} onEdit=${setEditing} onAgain=${(turn) => action.run(() => talk.regenerate(turn))} onRedrive=${(turn) => action.run(() => talk.redrive(turn.runId))} changed=${changed} me=${me} />
    <div class="foot">
      <${Trouble} error=${talk.error} retry=${() => talk.reload()} />
      <${Trouble} error=${action.error} />
      ${editing && html`<p class="quiet small">${S.chat.editing} <button type="button" class="plain" onClick=${leaveEdit}>${S.chat.cancelEdit}</button></p>`}
      <${Waiting} talk=${talk} action=${action} />
      <${Composer} key=${editing ? editing.key : threadId} agent=${talk.thread.agent} text=${editing ? textOf(editing.input) : ""} parts=${editing ? editing.input.content : []}
        busy=${busy} sending=${action.busy} onSend=${send} onStop=${() => action.run(() => talk.cancel())} onLeave=${editing && leaveEdit} />
    </div>
  </${Main}>`;
}

/** What waits in the thread, beside the conversation that goes on. */
function Waiting({ talk, action }) {
  if (!talk.waiting.length) return null;
  const requestsOf = (run) => [...talk.liveOf(run).waiting.values()].map((each) => each.summary || each.tool_name);
  const cancel = (run) => { if (confirm(S.chat.confirmCancel(requestsOf(run)))) action.run(() => talk.cancel(run)); };
  return html`<ul class="waits" aria-label=${S.chat.waiting}>${talk.waiting.map((run) => html`<li key=${run}>
    <${Icon} name="clock" /><span>${S.chat.waits}: ${requestsOf(run).join(", ")}</span>
    <${IconButton} icon="close" label=${S.chat.cancelOf(requestsOf(run).join(", "))} onClick=${() => cancel(run)} /></li>`)}</ul>`;
}

/** What was said, which follows its end unless somebody has scrolled up. `sent`: counts the messages of this page. */
function Transcript({ talk, sent, onEdit, onAgain, onRedrive, changed, me }) {
  const box = useRef(null), follows = useRef(true);
  const [away, setAway] = useState("");
  const look = () => {
    const { scrollHeight, scrollTop, clientHeight } = box.current;
    follows.current = scrollHeight - scrollTop - clientHeight < NEAR_END;
    const last = [...box.current.querySelectorAll(".decision")].at(-1);
    const isBelow = last && last.getBoundingClientRect().top > box.current.getBoundingClientRect().bottom;
    setAway(follows.current ? "" : isBelow ? S.chat.asksBelow : S.chat.newest);
  };
  const toEnd = () => { follows.current = true; setAway(""); box.current.scrollTop = box.current.scrollHeight; };
  useEffect(() => { if (sent) toEnd(); }, [sent]);
  useEffect(() => {
    if (follows.current) box.current.scrollTop = box.current.scrollHeight;
    else look();  // What came since may be a request.
  });
  const running = talk.live;
  const turns = talk.turns;
  const shownLive = running && turns.some((turn) => turn.runId === running.runId);
  return html`<div class="scroll"><div class="transcript" ref=${box} onScroll=${look} role="log" aria-label=${S.chat.label} tabindex="0">
    ${turns.length === 0 && !running && html`<${Empty} title=${S.start.empty} />`}
    ${turns.filter((turn) => turn.input || !talk.liveOf(turn.runId)).map((turn) => html`<${Turn} key=${turn.key} turn=${turn} talk=${talk} live=${talk.liveOf(turn.runId)}
      onEdit=${onEdit} onAgain=${onAgain} onRedrive=${onRedrive} changed=${changed} me=${me} />`)}
    ${running && !shownLive && html`<article class="turn"><div class="answer"><${Blocks} blocks=${running.view.blocks} onDecided=${changed} me=${me} /><${Progress} view=${running.view} /></div></article>`}
  </div>${away && html`<button type="button" class="chip newest" onClick=${() => { toEnd(); box.current.focus(); }}>${away}</button>`}</div>`;
}

function Turn({ turn, talk, live, onEdit, onAgain, onRedrive, changed, me }) {
  const [open, setOpen] = useState(false);
  const stored = useMemo(() => viewOfMessages(turn.answer, turn.run?.children, turn.run?.usage), [turn.answer, turn.run]);
  const broken = useBroken(turn, live);
  const past = broken || (turn.answer.length === 0 && talk.seenOf(turn.runId));
  const busy = Boolean(talk.live) || Boolean(live);
  // A run that went on after others has several turns. The last one has its end.
  const isLast = talk.turns.findLast((each) => each.runId === turn.runId) === turn;
  const isNewest = talk.turns.at(-1) === turn;
  const opinion = useOpinion(!live && isLast ? turn.run : null, talk.rate);
  return html`<article class="turn">
    ${turn.input && html`<div class="asked"><div class="bubble"><${Input} message=${turn.input} refused=${turn.input.refused || (live || past || stored).refused.has(turn.input.id)} /></div></div>`}
    <div class="answer">
      <${Blocks} blocks=${(live || past || stored).blocks} onDecided=${changed} me=${me} />
      ${live && html`<${Progress} view=${live} />`}
      ${!live && turn.run && html`<${Outcome} run=${turn.run} />`}
      ${!live && isNewest && turn.run?.status === "failed" && html`<button type="button" class="chip" disabled=${busy} onClick=${() => onRedrive(turn)}>${S.chat.tryAgain}</button>`}
      <footer class="turn-foot">
        ${!live && turn.siblings.length > 1 && html`<${Siblings} turn=${turn} talk=${talk} busy=${busy} />`}
        ${!live && turn.input && html`<${IconButton} icon="again" label=${S.chat.again} disabled=${busy} onClick=${() => onAgain(turn)} />`}
        ${!live && turn.input && html`<${IconButton} icon="pen" label=${S.chat.edit} disabled=${busy} onClick=${() => onEdit(turn)} />`}
        ${!live && saidIn((past || stored).blocks) && html`<${Copy} label=${S.copy.answer} text=${() => saidIn((past || stored).blocks)} />`}
        ${turn.runId && html`<${IconButton} icon="clock" label=${S.chat.details} aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)} />`}
        ${opinion && html`<${Thumbs} opinion=${opinion} />`}
        ${!live && turn.run?.usage && html`<span class="quiet small">${S.chat.tokens(tokens(turn.run.usage.total_tokens))} · ${money(turn.run.usage.cost_usd)}${turn.run.model ? ` · ${turn.run.model}` : ""}</span>`}
      </footer>
      ${opinion && html`<${Opinion} opinion=${opinion} />`}
      ${open && turn.runId && html`<${Timeline} runId=${turn.runId} stamp=${live ? live.marks : "over"} />`}
    </div>
  </article>`;
}

/** What a run had said that was stopped or failed: its events have the half of an answer that no message has. */
function useBroken(turn, live) {
  const [view, setView] = useState(null);
  const isBroken = !live && turn.input && ["cancelled", "failed"].includes(turn.run?.status);
  useEffect(() => {
    if (!isBroken) { setView(null); return undefined; }
    let here = true;
    const read = (events) => {
      const found = newView();
      for (const event of events) applyEvent(found, event);
      if (here && found.blocks.length) setView(found);
    };
    eventsOf(turn.runId).then(read, () => {});  // They are kept for a while, and then the messages are all there is.
    return () => { here = false; };
  }, [turn.runId, isBroken]);
  return view;
}

/** The text of an answer, without its calls. */
const saidIn = (blocks) => blocks.filter((block) => block.kind === "text").map((block) => block.text).join("\n\n");

function Siblings({ turn, talk, busy }) {
  const n = turn.siblings.findIndex((run) => run.id === turn.runId);
  const to = (step) => talk.show(leafOf(turn.siblings[n + step], talk.runs));
  return html`<span class="siblings"><${IconButton} icon="left" label=${S.chat.earlier} disabled=${busy || n <= 0} onClick=${() => to(-1)} />
    <span class="small">${S.chat.branch(n + 1, turn.siblings.length)}</span>
    <${IconButton} icon="right" label=${S.chat.later} disabled=${busy || n >= turn.siblings.length - 1} onClick=${() => to(1)} /></span>`;
}

function Input({ message, refused }) {
  const text = textOf(message);
  return html`${message.content.filter((part) => part.type === "file").map((part, n) => html`<${FileChip} key=${n} part=${part} />`)}
    ${text && html`<div class="typed" dir="auto">${text}</div>`}
    ${refused && html`<p class="quiet small note">${S.chat.refused}</p>`}`;
}

/** The status below the blocks of a run that is not over. */
function Progress({ view }) {
  const waits = view.waiting.size > 0;
  const quiet = view.status === "running" && !waits;
  return html`${view.output !== undefined && html`<${Output} value=${view.output} />`}
    ${quiet && html`<p class="typing" role="status"><span class="hidden">${S.nav.running}</span><i></i><i></i><i></i></p>`}
    ${view.error && html`<p class="trouble">${view.error.type}: ${view.error.message}</p>`}`;
}

function Outcome({ run }) {
  const reason = run.finish_reason && run.finish_reason !== "stop" ? S.chat.stopped[run.finish_reason] : null;
  return html`${run.error ? html`<div class="trouble" role="alert"><p>${run.error.type}: ${run.error.message}</p></div>` : reason && html`<p class="quiet small">${reason}</p>`}
    ${run.output !== null && run.output !== undefined && html`<${Output} value=${run.output} />`}`;
}

const Output = ({ value }) => html`<details class="reasoning" open><summary>${S.chat.output}</summary><pre tabindex="0"><code>${toJson(value, 2)}</code></pre></details>`;

/** The field for writing messages. `onSend(input)` returns whether the input was accepted; `parts`: of a message that is
 *  edited, of which its files and data go with the new one. */
export function Composer({ agent, text = "", parts: given = [], busy, sending, onSend, onStop, onLeave, autofocus = true }) {
  const [draft, setDraft] = useState(text);
  const [files, setFiles] = useState(() => given.filter((part) => part.type === "file").map((part, n) => ({ key: `given-${n}`, name: part.name || part.file_id || part.url, part })));
  const [over, setOver] = useState(false);
  const [tried, setTried] = useState(false);
  useEffect(() => { if (!busy) setTried(false); }, [busy]);
  const box = useRef(null), picker = useRef(null);
  useEffect(() => { if (autofocus && matchMedia("(hover: hover)").matches) box.current.focus(); }, []);
  useEffect(() => {
    box.current.style.height = "auto";
    box.current.style.height = `${Math.min(box.current.scrollHeight, 240)}px`;
  }, [draft]);
  const add = (list) => {
    for (const file of list) {
      const entry = { key: crypto.randomUUID?.() || String(Math.random()), name: file.name };
      setFiles((old) => [...old, entry]);
      const settle = (more) => setFiles((old) => old.map((each) => (each.key === entry.key ? { ...each, ...more } : each)));
      upload(file).then((part) => settle({ part }), (error) => settle({ error }));
    }
  };
  const ready = (draft.trim() || files.some((file) => file.part)) && files.every((file) => file.part || file.error) && !sending && !busy;
  const submit = async (event) => {
    event?.preventDefault();
    if (!ready) return;
    const data = given.filter((part) => part.type === "data");
    const parts = askedOf({ content: [...data, ...files.filter((file) => file.part).map((file) => file.part)] });
    const input = parts.length ? [...parts, ...(draft.trim() ? [{ type: "text", text: draft.trim() }] : [])] : draft.trim();
    const before = draft;
    setDraft("");
    if (await onSend(input)) setFiles([]);
    else setDraft(before);
  };
  const key = (event) => {
    if (event.key === "Escape" && onLeave && !event.isComposing) onLeave();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    if (busy && draft.trim()) setTried(true);
    submit(event);
  };
  useEffect(() => {
    const area = box.current.closest("main");
    const drag = (event) => { if (hasFiles(event)) { event.preventDefault(); setOver(true); } };
    const leave = (event) => { if (!area.contains(event.relatedTarget)) setOver(false); };
    const drop = (event) => { if (hasFiles(event)) { event.preventDefault(); setOver(false); add(event.dataTransfer.files); } };
    const handlers = Object.entries({ dragover: drag, dragleave: leave, drop });
    for (const [name, handler] of handlers) area.addEventListener(name, handler);
    return () => { for (const [name, handler] of handlers) area.removeEventListener(name, handler); };
  }, []);
  const paste = (event) => { if (event.clipboardData.files.length) { event.preventDefault(); add(event.clipboardData.files); } };
  return html`<form class=${`composer${over ? " over" : ""}`} onSubmit=${submit}>
    ${over && html`<p class="quiet small">${S.chat.drop}</p>`}
    <p class="quiet small busy" role="status">${tried && busy ? S.chat.busy : ""}</p>
    ${files.length > 0 && html`<ul class="files">${files.map((file) => html`<li key=${file.key} class=${file.error ? "wrong" : ""}><${Icon} name="file" /> ${file.name}
      ${!file.part && !file.error && html`<span class="quiet small"> ${S.chat.sending}</span>`}${file.error && html`<span class="small"> ${file.error.message}</span>`}
      <${IconButton} icon="close" label=${`${S.chat.detach} ${file.name}`} onClick=${() => setFiles(files.filter((each) => each !== file))} /></li>`)}</ul>`}
    <div class="line">
      <${IconButton} icon="clip" label=${S.chat.attach} onClick=${() => picker.current.click()} />
      <input ref=${picker} type="file" multiple class="hidden" tabindex="-1" aria-label=${S.chat.attach} onChange=${(e) => { add(e.currentTarget.files); e.currentTarget.value = ""; }} />
      <textarea ref=${box} rows="1" dir="auto" aria-label=${S.chat.write} placeholder=${S.chat.placeholder(agent)} title=${S.chat.hint} value=${draft}
        onInput=${(e) => setDraft(e.currentTarget.value)} onKeyDown=${key} onPaste=${paste}></textarea>
      ${busy ? html`<button type="button" class="round" aria-label=${S.chat.stop} title=${S.chat.stop} onClick=${onStop}><${Icon} name="stop" /></button>`
        : html`<button type="submit" class="round primary" aria-label=${S.chat.send} title=${S.chat.send} disabled=${!ready}><${Icon} name="send" /></button>`}
    </div></form>`;
}

/** A new thread: who answers, and the first message. `onThread(thread, here)`: `here` if this page is still open. */
export function Start({ agents, chosen, choose, onThread }) {
  const action = useAction();
  const here = useRef(true);
  useEffect(() => () => { here.current = false; }, []);
  const agent = agents.find((each) => each.name === chosen) || agents[0];
  if (!agent) return html`<${Main} class="page"><${Empty} title=${S.start.noAgents}><p>${S.start.addAgent}</p></${Empty}></${Main}>`;
  const send = (input) => action.run(async () => {
    const thread = await begin(agent.name, input);
    onThread(thread, here.current);
    return true;
  });
  return html`<${Main} class="chat start"><div class="transcript centered">
    <h1>${S.start.title}</h1><p class="quiet">${S.start.lead}</p>
    <div class="agents" role="radiogroup" aria-label=${S.start.title}>${agents.map((each) => html`<label key=${each.name} class=${`agent${each === agent ? " chosen" : ""}`}>
      <input type="radio" name="agent" value=${each.name} checked=${each === agent} onChange=${() => choose(each.name)} />
      <span class="agent-name">${each.name}</span>${each.description && html`<span class="agent-about" dir="auto">${each.description}</span>`}<span class="quiet small">${each.model}</span>
      ${each.tools.length > 0 && html`<ul class="tools">${each.tools.map((tool) => html`<li key=${tool.name} title=${tool.description}><code>${tool.name}</code>${(tool.needs_approval || tool.suspends) && html` <span class="tag">${S.start.asks}</span>`}</li>`)}</ul>`}
    </label>`)}</div>
    <${Trouble} error=${action.error} />
    </div><div class="foot"><${Composer} agent=${agent.name} busy=${false} sending=${action.busy} onSend=${send} /></div></${Main}>`;
}
