"""A model of one's own: Ollama by its own protocol, one JSON object a line, to start from.

It makes one attempt. Layover repeats passing faults and reads the errors of httpx2.
`tests/contract/test_own_models.py` runs the contract on it."""

import json
from typing import Any

import httpx2

from layover import Usage
from layover.models import (
    Delta,
    Model,
    OnDelta,
    Prompt,
    Reply,
    RequestedCall,
    chat_request,
    send_deltas,
)


class OllamaModel(Model):
    """A model of an Ollama server. The HTTP client is made when it is first used, in the event loop of the
    process that asks."""

    def __init__(self, model: str, url: str = "http://127.0.0.1:11434", **client: Any) -> None:
        self.name = f"ollama/{model}"
        self._model = model
        self._settings = {"base_url": url, "timeout": 120.0, **client}

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """Return one reply, told piece by piece."""
        texts, calls, last = [], [], {}
        request = self._request(prompt)
        async with (
            httpx2.AsyncClient(**self._settings) as http,
            http.stream("POST", "/api/chat", json=request) as response,
        ):
            if response.is_error:
                await response.aread()  # for the message of the error
            response.raise_for_status()
            async for line in response.aiter_lines():
                last = json.loads(line)
                if text := last["message"].get("content"):
                    texts.append(text)
                    await send_deltas(on_delta, Delta("text", text))
                calls += last["message"].get("tool_calls", [])
        if not last.get("done"):
            raise ConnectionError("the stream ended before the answer did")
        return Reply(
            text="".join(texts),
            # Ollama gives calls no ids: Layover does.
            calls=tuple(_call(call["function"]) for call in calls),
            finish_reason="tool-calls" if calls else _finish(last),
            usage=Usage(
                input_tokens=last.get("prompt_eval_count", 0),
                output_tokens=last.get("eval_count", 0),
            ),
        )

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        chat = chat_request(prompt)
        return {
            "model": self._model,
            "messages": [_message(each) for each in chat["messages"]],
            "tools": chat.get("tools", []),
            "options": {"temperature": prompt.settings.temperature or 0},
            "format": prompt.output.json_schema if prompt.output else None,
        }


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of Chat Completions as Ollama takes it: arguments are objects."""
    functions = [call["function"] for call in message.get("tool_calls", [])]
    calls = [{"function": {**f, "arguments": json.loads(f["arguments"])}} for f in functions]
    return {
        "role": message["role"],
        "content": message["content"] or "",
        **({"tool_calls": calls} if calls else {}),
    }


def _call(function: dict[str, Any]) -> RequestedCall:
    args = json.dumps(function["arguments"])
    return RequestedCall(id="", name=function["name"], args=args)


def _finish(last: dict[str, Any]) -> Any:
    return "length" if last.get("done_reason") == "length" else "stop"
