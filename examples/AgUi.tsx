import { HttpAgent, type Interrupt, type Message, type RunAgentInput } from "@ag-ui/client";
import { useMemo, useState } from "react";

/** Layover has the conversation and reads the last message, or what answers interrupts. The client would send all
 *  messages, and no request may have more than 5 MB. */
class OneMessageAgent extends HttpAgent {
  protected requestInit(input: RunAgentInput) {
    return super.requestInit({ ...input, messages: input.resume?.length ? [] : input.messages.slice(-1) });
  }
}

export function Support({ threadId }: { threadId: string }) {
  const [text, setText] = useState("");
  const [messages, setMessages] = useState<Message[]>([]);
  const [waiting, setWaiting] = useState<Interrupt[]>([]);
  const agent = useMemo(() => new OneMessageAgent({
    url: "http://127.0.0.1:8787/ag-ui/support",
    headers: { Authorization: "Bearer dev:ada" },
    threadId,
  }), [threadId]);

  const run = (answered: Interrupt[] = [], payload = {}) => {
    // The client would have all interrupts answered first. With Layover, the conversation goes on while they wait.
    agent.pendingInterrupts = [];
    const resume = answered.map(({ id }) => ({ interruptId: id, status: "resolved" as const, payload }));
    return agent.runAgent(resume.length > 0 ? { resume } : {}, {
      onMessagesChanged: ({ messages }) => setMessages([...messages]),
      onRunFinishedEvent: ({ event }) => {
        const asked = event.outcome?.type === "interrupt" ? event.outcome.interrupts : [];
        const known = new Set([...answered, ...asked].map(({ id }) => id));
        setWaiting((before) => [...before.filter(({ id }) => !known.has(id)), ...asked]);
      },
    });
  };
  const ask = () => {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
    setText("");
    return run();
  };
  return (
    <main>
      {messages.map((m) => <p key={m.id}><b>{m.role}</b> {typeof m.content === "string" && m.content}</p>)}
      {waiting.map((w) => (
        <p key={w.id}>
          {w.message} {JSON.stringify(w.metadata?.pending.args)}
          <button onClick={() => run([w], { approved: true })}>Approve</button>
          <button onClick={() => run([w], { approved: false })}>Deny</button>
        </p>
      ))}
      <form onSubmit={(e) => { e.preventDefault(); ask(); }}>
        <input value={text} onChange={(e) => setText(e.target.value)} />
      </form>
    </main>
  );
}
