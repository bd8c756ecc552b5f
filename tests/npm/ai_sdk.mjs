// Drives a served agent with the class behind `useChat`, and prints what the page would show, as JSON.
// node ai_sdk.mjs URL AGENT SCENARIO TEXT
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { prepareSendMessagesRequest } from "./one-message.mjs";

const [url, agent, scenario, ...texts] = process.argv.slice(2);
const headers = { Authorization: "Bearer dev:ada" };
const errors = [];

function chat(id, options = {}) {
  return new Chat({
    id,
    transport: new DefaultChatTransport({ api: `${url}/chat/${agent}`, headers, prepareSendMessagesRequest }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onError: (error) => errors.push(String(error)),
    ...options,
  });
}

const at_rest = async (one) => {
  while (one.status === "submitted" || one.status === "streaming") await new Promise((r) => setTimeout(r, 20));
};
const parts = (message) => message.parts.map(({ type, state, text, input, output, errorText, approval, data, url }) => (
  { type, state, text, input, output, errorText, approval, data, url }));
const shown = (one) => one.messages.map((m) => ({ id: m.id, role: m.role, metadata: m.metadata, parts: parts(m) }));
const asked = (one) => one.messages.at(-1).parts.find((p) => p.state === "approval-requested");

const scenarios = {
  async plain() {
    const one = chat("plain");
    await one.sendMessage({ text: texts[0] });
    return { messages: shown(one) };
  },
  async decision(approved) {
    const one = chat(`decision-${approved}`);
    await one.sendMessage({ text: texts[0] });
    const before = structuredClone(shown(one));
    await one.addToolApprovalResponse({ id: asked(one).approval.id, approved, reason: "because" });
    await new Promise((r) => setTimeout(r, 100));
    await at_rest(one);
    return { before, messages: shown(one) };
  },
  approved: () => scenarios.decision(true),
  denied: () => scenarios.decision(false),
  async regenerate() {
    const one = chat("regenerate");
    await one.sendMessage({ text: texts[0] });
    const before = structuredClone(shown(one));
    await one.regenerate();
    return { before, messages: shown(one) };
  },
  async body() {
    const fetch = async () => new Response(texts[0], { headers: { "content-type": "text/event-stream" } });
    const failures = [];
    const transport = new DefaultChatTransport({ api: url, fetch });
    const one = chat("body", { transport, onError: (error) => failures.push(error.message) });
    await one.sendMessage({ text: "hello" });
    return { status: one.status, failures, messages: shown(one) };
  },
  async resume() {
    const one = chat("resume");
    const sending = one.sendMessage({ text: texts[0] });
    while (!one.messages.at(-1)?.parts.some((p) => p.type === "text" && p.text && one.messages.at(-1).role === "assistant"))
      await new Promise((r) => setTimeout(r, 5));
    await one.stop();
    await sending;
    const cut = structuredClone(shown(one));
    const again = chat("resume", { messages: [one.messages[0]] });
    await again.resumeStream();
    await at_rest(again);
    const idle = chat("resume");
    await idle.resumeStream();
    return { cut, messages: shown(again), idle: shown(idle) };
  },
  async reload() {
    const one = chat("reload");
    await one.sendMessage({ text: texts[0] });
    const load = async () => (await (await fetch(`${url}/chat/${agent}/reload/messages`, { headers })).json()).items;
    const again = chat("reload", { messages: await load() });
    const loaded = structuredClone(shown(again));
    await again.resumeStream();
    await at_rest(again);
    const resumed = structuredClone(shown(again));
    await again.addToolApprovalResponse({ id: asked(again).approval.id, approved: true });
    await new Promise((r) => setTimeout(r, 100));
    await at_rest(again);
    const after = chat("reload", { messages: await load() });
    return { before: shown(one), loaded, resumed, messages: shown(again), after: shown(after) };
  },
  async meanwhile() {
    const one = chat("meanwhile");
    const load = async () => (await (await fetch(`${url}/chat/${agent}/meanwhile/messages`, { headers })).json()).items;
    await one.sendMessage({ text: texts[0] });
    const { id } = asked(one).approval;
    await one.sendMessage({ text: texts[1] });
    const before = structuredClone(shown(one));
    const waiting = shown(chat("meanwhile", { messages: await load() }));
    await one.addToolApprovalResponse({ id, approved: true });
    await one.sendMessage();
    await at_rest(one);
    const after = chat("meanwhile", { messages: await load() });
    await after.resumeStream();
    return { before, waiting, messages: shown(one), after: shown(after) };
  },
  async tabs() {
    const [one, two] = [chat("tabs"), chat("tabs")];
    await Promise.all([one.sendMessage({ text: texts[0] }), two.sendMessage({ text: texts[0] })]);
    return { one: shown(one), two: shown(two) };
  },
};

const result = await scenarios[scenario]();
console.log(JSON.stringify({ ...result, errors }));
