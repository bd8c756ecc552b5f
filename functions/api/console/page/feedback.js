import { IconButton, Time, Trouble, html, useAction, useLayoutEffect, useRef, useState } from "./dom.js";
import { S } from "./strings.js";

const MAX_COMMENT = 2000;
const OVER = ["success", "failed", "cancelled"];

/** What the user thinks of a run, and what they can do about it; null for a run that takes none. `rate(run, feedback)`
 *  keeps it, and takes it back without feedback. */
export function useOpinion(run, rate) {
  const action = useAction();
  const [editing, setEditing] = useState(false);
  if (!run || !OVER.includes(run.status)) return null;
  const kept = run.feedback || null;
  // No button is disabled meanwhile: it would lose the focus.
  const send = (feedback, stays = false) => !action.busy && action.run(async () => {
    await rate(run.id, feedback);
    if (!stays) setEditing(false);
  });
  const press = (score) => {
    if (!kept || Math.sign(kept.score) !== score) return send({ score, comment: kept?.comment ?? null }, true);
    return takeBack();
  };
  const takeBack = () => (!kept.comment || confirm(S.feedback.confirm)) && send(null);
  return { kept, action, editing, setEditing, press, takeBack, say: (comment) => send({ score: kept.score, comment: comment.trim() || null }) };
}

/** A thumb up and a thumb down. The one that counts is pressed, and pressed again it is taken back. */
export function Thumbs({ opinion }) {
  const { kept, press } = opinion;
  const thumb = (icon, score) => html`<${IconButton} icon=${icon} label=${S.feedback[icon]} aria-pressed=${kept && Math.sign(kept.score) === score ? "true" : "false"} onClick=${() => press(score)} />`;
  return html`<span class="thumbs" role="group" aria-label=${S.feedback.label}>${thumb("up", 1)}${thumb("down", -1)}</span>`;
}

const wordOfScore = (score) => S.feedback.said[score] || S.feedback.score(score);

/** What is kept, and the form for a comment. */
export function Opinion({ opinion }) {
  const { kept, action, editing, setEditing, takeBack, say } = opinion;
  const place = useRef(null), before = useRef("none");
  // A form takes the focus when it opens, and gives it back to the button that opened it. What is taken back leaves it
  // to the thumbs.
  const form = kept ? (editing ? "form" : "words") : "none";
  useLayoutEffect(() => {
    const left = before.current, at = document.activeElement;
    before.current = form;
    if (left === form || (at !== document.body && !place.current.contains(at))) return;
    if (form === "none") place.current.parentElement.querySelector(".thumbs button")?.focus();
    else if (left !== "none") place.current.querySelector("textarea, button")?.focus();
  }, [form]);
  return html`<div class="opinion" ref=${place}>
    ${kept && (editing ? html`<${CommentForm} text=${kept.comment || ""} busy=${action.busy} say=${say} close=${() => { action.clear(); setEditing(false); }} />`
      : html`<p class="small quiet">${wordOfScore(kept.score)} · <${Time} at=${kept.at} exact />
        <button type="button" class="plain" onClick=${() => setEditing(true)}>${kept.comment ? S.feedback.change : S.feedback.why}</button>
        <button type="button" class="plain" onClick=${takeBack}>${S.feedback.back}</button></p>
        ${kept.comment && html`<p class="typed small">${kept.comment}</p>`}`)}
    <${Trouble} error=${action.error} />
  </div>`;
}

function CommentForm({ text, busy, say, close }) {
  const [draft, setDraft] = useState(text);
  const submit = (event) => { event.preventDefault(); say(draft); };
  return html`<form aria-busy=${busy ? "true" : "false"} onSubmit=${submit} onKeyDown=${(e) => e.key === "Escape" && close()}>
    <label class="label">${S.feedback.comment} <span class="quiet">${S.decide.optional}</span><textarea rows="2" maxlength=${MAX_COMMENT} readonly=${busy} value=${draft} onInput=${(e) => setDraft(e.currentTarget.value)}></textarea></label>
    <div class="actions"><button type="submit" class="primary">${S.feedback.save}</button><button type="button" onClick=${close}>${S.feedback.cancel}</button></div>
  </form>`;
}
