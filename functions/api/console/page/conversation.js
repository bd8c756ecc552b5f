import { all, follow, get, id, post, remove } from "./api.js";
import { askedOf, turnsOf } from "./branches.js";
import { useCallback, useEffect, useMemo, useRef, useState } from "./dom.js";
import { applyEvent, newView, onlyWaits } from "./events.js";
import { runsOf } from "./timeline.js";

const PAINT_MS = 40;

async function load(threadId, branch) {
  const end = branch ? `?branch=${id(branch)}` : "";
  const [thread, messages, runs] = await Promise.all([
    get(`/threads/${id(threadId)}`), all(`/threads/${id(threadId)}/messages${end}`, 5000), runsOf(threadId),
  ]);
  return { thread, messages, runs };
}

/** One thread as it is and as it becomes: what is stored, the run that is answering, and what one can do. A component
 *  has one thread for as long as it lives. `changed()` is called when the list of threads may look different. */
export function useConversation(threadId, changed) {
  const [state, setState] = useState({ loading: true, runs: [], messages: [] });
  const [live, setLive] = useState(null);
  const [connected, setConnected] = useState(true);
  const [, repaint] = useState(0);
  // Loads are numbered, because one that is older than the newest load or run would remove newer messages.
  const newest = useRef(0), loading = useRef(0), branch = useRef(null), shown = useRef(null);
  const views = useRef(new Map());
  useEffect(() => () => { newest.current = NaN; }, []);  // After the thread was left, no load counts as the newest.

  const reload = useCallback(async (end = branch.current) => {
    const mine = newest.current += 1;
    loading.current += 1;
    try {
      const found = await load(threadId, end);
      if (mine !== newest.current) return;
      branch.current = end;
      setState({ ...found, loading: false });
      const active = found.thread.active_run;
      setLive((old) => (active ? (old?.runId === active.id ? old : { runId: active.id, view: viewOf(active.id) }) : null));
    } catch (error) {
      if (mine === newest.current) setState((old) => ({ ...old, error, loading: false }));
    } finally {
      loading.current -= 1;
    }
  }, []);
  useEffect(() => { reload(); }, []);

  const viewOf = (run) => {
    if (!views.current.has(run)) views.current.set(run, newView());
    return views.current.get(run);
  };
  const runId = live?.runId;
  const asides = (state.thread?.waiting_runs || []).map((run) => run.id).filter((run) => run !== runId);
  const followed = [...asides, ...(runId ? [runId] : [])];

  const watch = async (run, signal) => {
    const view = viewOf(run);
    let timer = null;
    const soon = () => { timer ||= setTimeout(() => { timer = null; repaint((n) => n + 1); }, PAINT_MS); };
    signal.addEventListener("abort", () => clearTimeout(timer));
    try {
      for await (const events of follow(run, view.last, signal, setConnected)) {
        const waited = view.waiting.size;
        for (const event of events) applyEvent(view, event);
        if (view.waiting.size !== waited) {
          changed();
          if (!view.waiting.size) reload();  // It goes on: it has the thread now, or once another run is over.
        }
        soon();
      }
    } catch (error) {
      if (signal.aborted) return;
      setState((old) => ({ ...old, error }));
      setLive((old) => (old?.runId === run ? null : old));
      return;
    }
    if (!signal.aborted) {
      await reload(null);
      changed();
    }
  };
  const watched = useRef(new Map());
  useEffect(() => {
    for (const [run, leave] of watched.current) {
      if (followed.includes(run)) continue;
      leave.abort();
      watched.current.delete(run);
    }
    for (const run of followed) {
      if (watched.current.has(run)) continue;
      const leave = new AbortController();
      watched.current.set(run, leave);
      watch(run, leave.signal);
    }
    if (!followed.length) setConnected(true);
  }, [followed.join(" ")]);
  useEffect(() => () => { for (const leave of watched.current.values()) leave.abort(); }, []);

  const start = async (input, parent) => {
    const body = { input, stream: true };
    if (parent !== undefined) body.parent_id = parent;
    const run = await post(`/threads/${id(threadId)}/runs`, body);
    newest.current += 1;
    branch.current = null;
    if (live?.runId !== run.id) {
      setState((old) => ({
        ...old,
        error: null,
        messages: [...cutAt(old.messages, parent).filter((each) => each.run_id !== run.id), { ...(run.input || {}), run_id: run.id }],
        runs: [run, ...old.runs.filter((each) => each.id !== run.id)],
      }));
    }
    const before = live && live.runId !== run.id && onlyWaits(live.view) ? [{ id: live.runId, status: "suspended" }] : [];
    setState((old) => ({ ...old, thread: { ...old.thread, waiting_runs: [...(old.thread?.waiting_runs || []), ...before] } }));
    setLive((old) => (old?.runId === run.id ? old : { runId: run.id, view: viewOf(run.id) }));
    if (live?.runId === run.id) reload();  // The run that waits was sent the message.
    changed();
    if (loading.current) reload();  // That load would have brought the previous answer.
  };

  const send = async (input, parent) => {
    await shown.current;
    return start(input, parent === undefined ? branch.current ?? undefined : parent);
  };
  const regenerate = (turn) => start(askedOf(turn.input), turn.input.parent_id);
  /** Lets a run that failed go on from its last step. Its log says so from its beginning. */
  const redrive = async (run) => {
    await post(`/runs/${id(run)}/redrive`);
    views.current.delete(run);
    await reload(null);
    changed();
  };
  const cancel = (run = runId) => post(`/runs/${id(run)}/cancel`);
  /** Keeps what the user thinks of a run, or takes it back. */
  const rate = async (run, feedback) => {
    const kept = feedback ? await post(`/runs/${id(run)}/feedback`, feedback) : await remove(`/runs/${id(run)}/feedback`);
    newest.current += 1;
    setState((old) => ({ ...old, runs: old.runs.map((each) => (each.id === run ? { ...each, feedback: kept } : each)) }));
    if (loading.current) reload();  // That load may have read what was kept before.
  };
  /** The view of a run that is not over; null: it is, or its messages are stored. */
  const liveOf = (run) => (followed.includes(run) ? viewOf(run) : null);
  const show = (leaf) => { shown.current = reload(leaf); };
  /** The events seen of a run, until its messages are loaded. */
  const seenOf = (run) => views.current.get(run);
  const waiting = followed.filter((run) => onlyWaits(viewOf(run)));
  const turns = useMemo(() => turnsOf(state.messages, state.runs), [state.messages, state.runs]);
  return { ...state, turns, live, waiting, liveOf, connected, send, regenerate, redrive, cancel, rate, show, reload, seenOf };
}

/** Messages up to the one that a new run continues; null begins anew. */
function cutAt(messages, parent) {
  if (parent === undefined) return messages;
  const n = parent === null ? -1 : messages.findIndex((message) => message.id === parent);
  return messages.slice(0, n + 1);
}

/** A new thread, and its first message on the way. */
export async function begin(agent, input) {
  const thread = await post("/threads", { agent });
  await post(`/threads/${id(thread.id)}/runs`, { input, stream: true });
  return thread;
}
