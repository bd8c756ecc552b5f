"""Finding tools by words: a model with many tools reads this one instead of all their schemas."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from layover.declare.agent import Agent
from layover.declare.tools.empty import note_if_empty
from layover.declare.tools.tool import AnyTool, tool
from layover.engine.state import RunState
from layover.values.prompt import ToolSpec
from layover.values.runs.run import SEARCH_TOOL, CallState

SEARCH_ABOVE = 30
"""The number of tools above which the model searches."""
FOUND = 5
"""The number of tools in one answer."""
_NOTHING = (
    "No tool fits these words. Search once more with other words. If nothing fits them either, there is no "
    "such tool: answer without one, or say what you cannot do."
)
_WORD = re.compile(r"[^\W_]+")
_CASES = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def uses_search(agent: Agent) -> bool:
    """Return whether the agent's model finds its tools by words, whatever its provider takes."""
    return agent.tool_search and may_search(agent)


def may_search(agent: Agent) -> bool:
    """Return whether the agent has so many tools that its model may find them by words."""
    return len(agent.tools) > SEARCH_ABOVE and agent.tool(SEARCH_TOOL) is None


def search_tool(tools: Sequence[AnyTool]) -> AnyTool:
    """Return the tool that finds others."""

    @tool(
        name=SEARCH_TOOL,
        idempotent=True,
        trusted=True,
        to_model_output=note_if_empty(_NOTHING),
    )
    def search_tools(
        query: Annotated[str, Field(description="What the tool should do, in a few words.")],
    ) -> list[dict[str, str]]:
        """Find tools by words. Those that are found can be called from the next step on."""
        return [{"name": t.name, "description": t.description} for t in find_tools(tools, query)]

    return search_tools


def find_tools(tools: Sequence[AnyTool], query: str) -> list[AnyTool]:
    """Return the tools that fit best, those with rare words of the query first; none if no word fits."""
    texts = [_words(f"{t.name} {t.description} {' '.join(_names(t))}") for t in tools]
    query_words = _words(query)
    rarity = {w: math.log(1 + len(tools) / n) for w in query_words if (n := _having(texts, w))}
    scores = [sum(rarity.get(w, 0) * bool(_fits(text, w)) for w in query_words) for text in texts]
    ranked = sorted(range(len(tools)), key=lambda at: -scores[at])
    return [tools[at] for at in ranked[:FOUND] if scores[at] > 0]


def specs_of(agent: Agent, built_in: Sequence[AnyTool], state: RunState) -> list[ToolSpec]:
    """Return the tools that the next step's model is shown. With a search, in this order: Layover's own,
    hand-offs, a tool that it has to call, and those that it has found in this run."""
    if not uses_search(agent):
        return [
            t.spec for t in (*agent.tools, *built_in) if t.name != SEARCH_TOOL or t in agent.tools
        ]
    return [t.spec for t in (*built_in, *tools_in_view(agent, state))]


def tools_in_view(agent: Agent, state: RunState) -> list[AnyTool]:
    """Return the agent's tools that a model sees that finds the others."""
    forced = agent.model_settings.tool_choice
    always = [t for t in agent.tools if t.handoff is not None or t.name == forced]
    names = dict.fromkeys(name for name in _found_in(state) if agent.tool(name) not in always)
    return [*always, *(tool for name in names if (tool := agent.tool(name)))]


def _found_in(state: RunState) -> list[str]:
    """Return the names in the answers of the run's searches, from its journal."""
    names: list[str] = []
    for step in state.steps:
        for call in state.calls_of(step):
            is_answer = call.state is CallState.SETTLED and not call.is_error
            if call.tool_name == SEARCH_TOOL and is_answer and isinstance(call.result, list):
                names += [each["name"] for each in call.result if isinstance(each, dict)]
    return names


def _names(tool: AnyTool) -> list[str]:
    return list(tool.parameters.get("properties", {}))


def _words(text: str) -> Counter[str]:
    """Return the words. Latin words of one or two letters say nothing and are left out; in other scripts a
    single character may be a word."""
    words = (word.lower() for word in _WORD.findall(_CASES.sub(" ", text)))
    return Counter(word for word in words if len(word) > 2 or not word.isascii())


def _having(texts: Sequence[Counter[str]], word: str) -> int:
    return sum(_fits(text, word) for text in texts)


def _fits(text: Counter[str], word: str) -> bool:
    """Return whether the text has this word or another form of it, recognised by the same beginning."""
    if word in text:
        return True
    stem = word[: max(4, len(word) - 3)]
    return len(word) >= 4 and any(other.startswith(stem) for other in text)
