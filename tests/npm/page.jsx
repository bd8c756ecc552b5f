// A page of an app: `useChat` with tools, approvals, reload and abort. `?api=URL&chat=ID` says what it shows.
// A reload finds the messages of answers that were complete, as an app's own store would have them; with `load=1`
// those that Layover has.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { Fragment, StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { prepareSendMessagesRequest } from "./one-message";

const query = new URLSearchParams(location.search);
const id = query.get("chat");
const headers = { Authorization: "Bearer dev:ada" };
const load = async () => (await (await fetch(`${query.get("api")}/${id}/messages`, { headers })).json()).items;
const kept = query.get("load") ? await load() : JSON.parse(localStorage.getItem(id) ?? "[]");
const transport = new DefaultChatTransport({ api: query.get("api"), headers, prepareSendMessagesRequest });

function Page() {
  const [text, setText] = useState("");
  const chat = useChat({
    id, transport, messages: kept, resume: true,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const { messages, status, error } = chat;
  useEffect(() => { document.body.dataset.mounts = Number(document.body.dataset.mounts ?? 0) + 1; }, []);
  useEffect(() => {
    const answering = messages.at(-1)?.role === "assistant" && status === "streaming";
    if (messages.length) localStorage.setItem(id, JSON.stringify(answering ? messages.slice(0, -1) : messages));
  }, [messages, status]);
  return (
    <main data-status={status}>
      {messages.map((message) => (
        <article key={message.id} data-role={message.role} data-id={message.id}>
          {message.parts.map((part, at) => <Part key={at} part={part} message={message} chat={chat} />)}
        </article>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <form onSubmit={(e) => { e.preventDefault(); chat.sendMessage({ text }); setText(""); }}>
        <input aria-label="Message" value={text} onChange={(e) => setText(e.target.value)} />
        <button>Send</button>
      </form>
      <button onClick={chat.stop}>Stop</button>
      <button onClick={() => chat.regenerate()}>Regenerate</button>
    </main>
  );
}

function Part({ part, message, chat }) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (!part.type.startsWith("tool-")) return null;
  const answer = (approved) => async () => {
    await chat.addToolApprovalResponse({ id: part.approval.id, approved, reason: "because" });
    if (message !== chat.messages.at(-1)) await chat.sendMessage();
  };
  return (
    <section data-state={part.state}>
      {part.type} {JSON.stringify(part.input)} <output>{JSON.stringify(part.output)}</output>
      {part.state === "approval-requested" && (
        <><button onClick={answer(true)}>Approve</button><button onClick={answer(false)}>Deny</button></>
      )}
    </section>
  );
}

// React runs effects twice in strict mode, in its development build alone.
const Mode = query.get("strict") ? StrictMode : Fragment;
createRoot(document.getElementById("root")).render(<Mode><Page /></Mode>);
