/** Turns of a branch: each input with the answer to it, and its siblings. A run that went on after others has another
 *  turn, without an input. `messages` of one branch in order, `runs` of the thread, newest first. */
export function turnsOf(messages, runs) {
  const byId = new Map(runs.map((run) => [run.id, run]));
  const turns = [];
  for (const message of messages) {
    const last = turns.at(-1);
    const goesOn = last && (last.runId === message.run_id || !message.run_id);
    if (goesOn && (message.role !== "user" || message.run_id)) last.answer.push(message);
    else if (message.role === "user") {
      turns.push({ key: message.run_id || message.id, runId: message.run_id, input: message, answer: [], run: byId.get(message.run_id) });
    } else turns.push({ key: message.id, runId: message.run_id, input: null, answer: [message], run: byId.get(message.run_id) });
  }
  for (const turn of turns) turn.siblings = turn.input ? siblingsOf(turn, runs) : [];
  return turns;
}

function siblingsOf(turn, runs) {
  const same = runs.filter((run) => run.input && run.input.parent_id === turn.input.parent_id);
  return same.sort((a, b) => a.created_at.localeCompare(b.created_at));
}

const endOf = (run) => run.messages.at(-1)?.id || run.input?.id;

/** The newest message below a run's answer: what `?branch=` takes. */
export function leafOf(run, runs) {
  let current = run;
  for (let depth = 0; depth < 1000; depth += 1) {
    const ids = new Set([current.input?.id, ...current.messages.map((message) => message.id)]);
    const next = runs.filter((each) => each.id !== current.id && each.input && ids.has(each.input.parent_id))
      .sort((a, b) => b.created_at.localeCompare(a.created_at))[0];
    if (!next) return endOf(current);
    current = next;
  }
  return endOf(current);
}

/** The input, for asking again. */
export function askedOf(message) {
  const parts = message.content.filter((part) => ["text", "file", "data"].includes(part.type));
  return parts.map(({ type, text, file_id: file, name, mime_type: kind, data, url }) => {
    if (type === "text") return { type, text };
    if (type === "data") return { type, name, data };
    return file ? { type, file_id: file } : { type, url, name, mime_type: kind };
  });
}

export const textOf = (message) => message.content.filter((part) => part.type === "text").map((part) => part.text).join("\n");
