// Drives a served agent with AG-UI's own client, and prints its events and messages, as JSON.
// node ag_ui.mjs URL AGENT SCENARIO TEXT...
import { HttpAgent } from "@ag-ui/client";
import { OneMessageAgent } from "./one-message-agent.mjs";

const [url, name, scenario, text, more] = process.argv.slice(2);
const headers = { Authorization: "Bearer dev:ada" };
const errors = [];

function agent(threadId) {
  return new OneMessageAgent({ url: `${url}/ag-ui/${name}`, headers, threadId });
}

async function run(one, options = {}) {
  const events = [];
  await one.runAgent(options, { onEvent: ({ event }) => void events.push(event), onRunFailed: ({ error }) => void errors.push(String(error)) });
  return events;
}

async function asked(threadId, resume) {
  const one = agent(threadId);
  one.addMessage({ id: "m1", role: "user", content: text });
  const before = await run(one, { runId: "r1" });
  const { interrupts } = before.at(-1).outcome;
  const events = await run(one, { runId: "r2", resume: interrupts.map(({ id }) => ({ interruptId: id, ...resume })) });
  return { before, events, messages: one.messages };
}

const scenarios = {
  async plain() {
    const one = agent("ag-plain");
    one.addMessage({ id: "m1", role: "user", content: text });
    return { events: await run(one, { runId: "r1" }), messages: one.messages };
  },
  async tools() {
    const one = agent("ag-tools");
    one.addMessage({ id: "m1", role: "user", content: text });
    const own = [{ name: "look_up", description: "the page's own", parameters: { type: "object" } }];
    return { events: await run(one, { runId: "r1", tools: own, context: [] }), messages: one.messages };
  },
  async abort() {
    const one = agent("ag-abort");
    one.addMessage({ id: "m1", role: "user", content: text });
    const events = [];
    await one.runAgent({ runId: "r1" }, {
      onEvent: ({ event }) => void events.push(event),
      onTextMessageContentEvent: () => one.abortRun(),
    });
    return { events, messages: one.messages, isRunning: one.isRunning };
  },
  async reload() {
    const one = agent("ag-reload");
    one.addMessage({ id: "m1", role: "user", content: text });
    const before = await run(one, { runId: "r1" });
    // HttpAgent of 1.0 has no connect: a client that comes back begins without messages, and the thread goes on.
    const again = agent("ag-reload");
    const { newMessages } = await again.connectAgent();
    again.addMessage({ id: "m2", role: "user", content: more });
    return { before, connected: newMessages, events: await run(again, { runId: "r2" }), messages: again.messages };
  },
  async body() {
    const fetch = async () => new Response(text, { headers: { "content-type": "text/event-stream" } });
    const one = new HttpAgent({ url, threadId: "t", fetch });
    one.addMessage({ id: "m1", role: "user", content: "hello" });
    const failures = [], customs = [];
    await one.runAgent({ runId: "r" }, {
      onRunErrorEvent: ({ event }) => void failures.push(event.message),
      onCustomEvent: ({ event }) => void customs.push(event),
    });
    return { failures, customs, messages: one.messages };
  },
  async state() {
    const { before, events } = await asked("ag-state", { status: "resolved", payload: { approved: true } });
    return { before, events };
  },
  async meanwhile() {
    const one = agent("ag-meanwhile");
    one.addMessage({ id: "m1", role: "user", content: text });
    const { interrupts } = (await run(one, { runId: "r1" })).at(-1).outcome;
    // The client would have them answered first.
    one.pendingInterrupts = [];
    one.addMessage({ id: "m2", role: "user", content: more });
    const before = await run(one, { runId: "r2" });
    const resume = interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved: true } }));
    return { before, events: await run(one, { runId: "r3", resume }), messages: one.messages };
  },
  approved: () => asked("ag-approved", { status: "resolved", payload: { approved: true } }),
  denied: () => asked("ag-denied", { status: "cancelled" }),
};

console.log(JSON.stringify({ ...(await scenarios[scenario]()), errors }));
