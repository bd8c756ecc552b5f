import { HttpAgent, type Interrupt, type Message } from "@ag-ui/client";
import { useMemo, useState } from "react";

export function Support({ threadId }: { threadId: string }) {
  const [text, setText] = useState("");
  const [messages, setMessages] = useState<Message[]>([]);
  const [waiting, setWaiting] = useState<Interrupt[]>([]);
  const agent = useMemo(() => new HttpAgent({
    url: "http://127.0.0.1:8787/ag-ui/support",
    headers: { Authorization: "Bearer dev:ada" },
    threadId,
  }), [threadId]);

  const run = (options = {}) => agent.runAgent(options, {
    onMessagesChanged: ({ messages }) => setMessages([...messages]),
    onRunFinishedEvent: ({ event }) =>
      setWaiting(event.outcome?.type === "interrupt" ? event.outcome.interrupts : []),
  });
  const answer = (approved: boolean) => () => run({
    resume: waiting.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved } })),
  });
  const ask = () => {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
    setText("");
    return run();
  };
  return (
    <main>
      {messages.map((m) => <p key={m.id}><b>{m.role}</b> {typeof m.content === "string" && m.content}</p>)}
      {waiting.map((w) => <p key={w.id}>{w.message}</p>)}
      {waiting.length > 0 && <><button onClick={answer(true)}>Approve</button><button onClick={answer(false)}>Deny</button></>}
      <form onSubmit={(e) => { e.preventDefault(); ask(); }}>
        <input value={text} onChange={(e) => setText(e.target.value)} disabled={waiting.length > 0} />
      </form>
    </main>
  );
}
