import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, type UIMessage } from "ai";
import { useEffect, useState } from "react";

const api = "http://127.0.0.1:8787/chat/support";
const headers = { Authorization: "Bearer dev:ada" };
const transport = new DefaultChatTransport({
  api,
  headers,
  // Layover has the conversation: it reads the message in which approvals are answered, or the last one. The SDK would
  // send all messages, and no request may have more than 5 MB.
  prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) => {
    const read = messages.find((message) => message.id === messageId) ?? messages.at(-1);
    const parts = read?.parts.filter(
      (part) => read.role === "user" || ("state" in part && part.state === "approval-responded"),
    );
    return { body: { id, trigger, messageId, messages: read && [{ id: read.id, role: read.role, parts }] } };
  },
});

/** A refusal comes as the text of a problem document (RFC 9457), whose `detail` is a sentence. */
function sentence({ message }: Error) {
  try {
    return JSON.parse(message).detail ?? message;
  } catch {
    return message;
  }
}

/** The chat with what was said before it was loaded, calls that wait included. */
export function Support({ chatId }: { chatId: string }) {
  const [before, setBefore] = useState<UIMessage[]>();
  useEffect(() => {
    fetch(`${api}/${chatId}/messages`, { headers })
      .then((answer) => answer.json())
      .then(({ items }) => setBefore(items));
  }, [chatId]);
  return before && <Chat chatId={chatId} before={before} />;
}

function Chat({ chatId, before }: { chatId: string; before: UIMessage[] }) {
  const [text, setText] = useState("");
  const { messages, sendMessage, addToolApprovalResponse, stop, status, error } = useChat({
    id: chatId,
    messages: before,
    resume: true,
    transport,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const answer = (message: UIMessage, id: string, approved: boolean) => async () => {
    await addToolApprovalResponse({ id, approved });
    // The SDK sends by itself what is answered in the last message; the conversation may have gone on.
    if (message !== messages.at(-1)) await sendMessage();
  };
  const isBusy = status === "submitted" || status === "streaming";
  return (
    <main>
      {messages.flatMap((message) => message.parts.map((part, at) => {
        if (part.type === "text") return <p key={message.id + at}><b>{message.role}</b> {part.text}</p>;
        if (!part.type.startsWith("tool-") || !("state" in part) || part.state !== "approval-requested") return null;
        return (
          <p key={message.id + at}>
            {part.type} {JSON.stringify(part.input)}
            <button disabled={isBusy} onClick={answer(message, part.approval.id, true)}>Approve</button>
            <button disabled={isBusy} onClick={answer(message, part.approval.id, false)}>Deny</button>
          </p>
        );
      }))}
      {error && <p role="alert">{sentence(error)}</p>}
      <form onSubmit={(e) => { e.preventDefault(); sendMessage({ text }); setText(""); }}>
        <input value={text} onChange={(e) => setText(e.target.value)} disabled={isBusy} />
        {isBusy && <button type="button" onClick={stop}>Stop reading</button>}
      </form>
    </main>
  );
}
