"""Claude behind Converse: it refuses what the API refuses, and thoughts that do not come back unchanged."""

from typing import Any

from layover.plugins.models.bedrock.content import CACHE_POINT
from support.providers import converse
from support.providers.answers import Json, Raw, Response

MODEL = "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0"


def problem(body: Json) -> str | None:
    """Return the API's error message for a request; None if the request is valid."""
    turns = body["messages"]
    if not turns or turns[0]["role"] != "user":
        return "A conversation must start with a user message."
    if turns[-1]["role"] != "user":
        return "This model does not support assistant message prefill."
    open_calls: list[str] = []
    for before, turn in zip([None, *turns], turns, strict=False):
        if before is not None and before["role"] == turn["role"]:
            return f"messages: roles must alternate between user and assistant, not {turn['role']}"
        if found := _of_turn(turn, open_calls):
            return found
        open_calls = [b["toolUse"]["toolUseId"] for b in turn["content"] if "toolUse" in b]
    return _of_tools(body)


def _of_turn(turn: Json, open_calls: list[str]) -> str | None:
    if not turn["content"]:
        return "The content field in the Message object is empty."
    answered = [b["toolResult"]["toolUseId"] for b in turn["content"] if "toolResult" in b]
    if answered != open_calls:
        return f"Expected toolResult blocks for {open_calls}, but found {answered}"
    texts = [b["text"] for b in turn["content"] if "text" in b]
    if any(not text.strip() for text in texts):
        return "The text field in the ContentBlock object is blank."
    if any("document" in b for b in turn["content"]) and not texts:
        return "A text block is required when a document is given."
    if turn["role"] == "assistant" and texts and texts[-1] != texts[-1].rstrip():
        return "messages: final assistant content cannot end with trailing whitespace"
    return None


def _of_tools(body: Json) -> str | None:
    tools = body.get("toolConfig", {}).get("tools", [])
    blocks = [b for turn in body["messages"] for b in turn["content"]]
    if any("toolUse" in b or "toolResult" in b for b in blocks) and not tools:
        return (
            "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        )
    points = str(body).count("'cachePoint'")
    if points > 4:
        return f"A maximum of 4 blocks with cache_control may be provided. Found {points}."
    thinks = body.get("additionalModelRequestFields", {}).get("thinking", {})
    choice = body.get("toolConfig", {}).get("toolChoice", {})
    if thinks.get("type") == "enabled" and choice.keys() & {"any", "tool"}:
        return "Thinking may not be enabled when tool_choice forces tool use."
    return None


def signature(step: int) -> str:
    """Return the signature of a step's thought."""
    return f"sig{step}=="


class Claude:
    """A responder for `FakeOpenAI.respond_with`: it asks for the tool `look` twice, and then answers."""

    def __call__(self, body: Any) -> Response | Raw:
        wrong = problem(body) or self._forgotten(body)
        if wrong is not None:
            return converse.refuse(400, "ValidationException", wrong)
        step = sum("toolUse" in b for turn in body["messages"] for b in turn["content"])
        if step % 2 == 0 and "toolResult" in body["messages"][-1]["content"][0]:
            return Response("done")
        args = (f"tooluse_{step}", "look", f'{{"n": {step}}}')
        if "thinking" not in body.get("additionalModelRequestFields", {}):
            return Response(calls=(args,))
        return Response(reasoning=f"Schritt {step} 😀", signature=signature(step), calls=(args,))

    def _forgotten(self, body: Json) -> str | None:
        """Thoughts that are changed, or are missing where it still waits for its calls."""
        thinks = "thinking" in body.get("additionalModelRequestFields", {})
        turns = [t["content"] for t in body["messages"] if t["role"] == "assistant"]
        waits = "toolResult" in body["messages"][-1]["content"][0]
        for at, content in enumerate(turns):
            blocks = [b for b in content if b != CACHE_POINT]
            called = [b["toolUse"]["input"]["n"] for b in blocks if "toolUse" in b]
            thoughts = [b["reasoningContent"] for b in blocks if "reasoningContent" in b]
            for step, thought in zip(called, thoughts, strict=False):
                signed = {"text": f"Schritt {step} 😀", "signature": signature(step)}
                if thought != {"reasoningText": signed}:
                    return "Invalid `signature` in `thinking` block"
            if thinks and waits and at == len(turns) - 1 and "reasoningContent" not in blocks[0]:
                return "Expected `thinking` or `redacted_thinking`, but found `tool_use`."
        return None
