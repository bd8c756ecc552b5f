"""Features that work with each provider, and their evidence. `docs/reference/models.md` is written from it,
and tests hold the adapters and the fakes of the providers to it
(`tests/unit/plugins/models/test_model_table.py`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal, get_args

Feature = Literal[
    "tools",
    "parallel",
    "strict",
    "structured",
    "streams",
    "reasoning",
    "images",
    "PDF",
    "audio",
    "caching",
    "usage",
]
FEATURES: tuple[Feature, ...] = get_args(Feature)
Evidence = Literal["recorded", "documented", "fake", "unknown", "no"]
MEANINGS: Mapping[Evidence, str] = {
    "recorded": "recorded exchanges with the provider have it, and tests replay them",
    "documented": "the provider documents it, and a fake that follows the documents takes it",
    "fake": "only a fake takes it",
    "unknown": "requests have it; what the provider makes of it is not known",
    "no": "it is not sent, or the provider refuses it and it is left out",
}


@dataclass(frozen=True)
class Support:
    """A provider. `prefix`: of its models' names; `evidence`: that each feature works; `left_out`: fields of
    a request that it refuses once in a process and model, and that are not sent again; `key`: the variable
    that usually has its key; `base_url`, `api`: for `LAYOVER_PROVIDERS`; `mends`: on the wire."""

    name: str
    title: str
    prefix: str
    example: str
    evidence: Mapping[Feature, Evidence]
    checked: date
    key: str
    base_url: str = ""
    api: Literal["openai", "anthropic"] = "openai"
    left_out: tuple[str, ...] = ()
    mends: str = ""


_CHECKED = date(2026, 11, 27)
_LETTERS: Mapping[str, Evidence] = {
    "R": "recorded",
    "D": "documented",
    "F": "fake",
    "U": "unknown",
    "N": "no",
}


def _each(letters: str) -> Mapping[Feature, Evidence]:
    """Return the evidence of a row, from the letter of each feature in the order of FEATURES."""
    values = (_LETTERS[letter] for letter in letters.split())
    return dict(zip(FEATURES, values, strict=True))


# In the order of FEATURES: tools, parallel, strict, structured, streams, reasoning, images, PDF, audio,
# caching, usage.
SUPPORT: tuple[Support, ...] = (
    Support(
        name="openai",
        title="OpenAI, Chat Completions",
        prefix="openai",
        example="openai/gpt-4o",
        evidence=_each("R R R D R N R D D D R"),
        checked=_CHECKED,
        key="OPENAI_API_KEY",
        mends="ids of calls above 40 characters go as their hash",
    ),
    Support(
        name="openai-responses",
        title='OpenAI, Responses (`api="responses"`)',
        prefix="openai",
        example="openai/gpt-5.5",
        evidence=_each("R R R D R R D D N R R"),
        checked=_CHECKED,
        key="OPENAI_API_KEY",
        mends="answers go back under the ids of their items",
    ),
    Support(
        name="anthropic",
        title="Anthropic, Messages",
        prefix="anthropic",
        example="anthropic/claude-sonnet-4-5",
        evidence=_each("R R N D R R D D N R R"),
        checked=_CHECKED,
        key="ANTHROPIC_API_KEY",
        base_url="https://api.anthropic.com",
        api="anthropic",
        mends="users and the assistant alternate; Claude does not think behind results of another model",
    ),
    Support(
        name="bedrock",
        title="Amazon Bedrock, Converse",
        prefix="bedrock",
        example="bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
        evidence=_each("R D N D R R D D N R R"),
        checked=_CHECKED,
        key="",
        mends="a structured answer is the call of a tool; otherwise as at Anthropic",
    ),
    Support(
        name="mistral",
        title="Mistral",
        prefix="mistral",
        example="mistral/mistral-large-2512",
        evidence=_each("R D U D D R D U U N R"),
        checked=_CHECKED,
        key="MISTRAL_API_KEY",
        base_url="https://api.mistral.ai/v1",
        left_out=("max_completion_tokens", "prompt_cache_key"),
        mends="ids of calls have 9 letters or digits; `(No answer.)` stands between a result and a user; "
        "thoughts go back in the `content`",
    ),
    Support(
        name="deepseek",
        title="DeepSeek",
        prefix="deepseek",
        example="deepseek/deepseek-v4-pro",
        evidence=_each("R R U U R R N N N R R"),
        checked=_CHECKED,
        key="DEEPSEEK_API_KEY",
        base_url="https://api.deepseek.com/v1",
        left_out=("files",),
        mends="answers of other models get a blank `reasoning_content`",
    ),
    Support(
        name="groq",
        title="Groq",
        prefix="groq",
        example="groq/openai/gpt-oss-120b",
        evidence=_each("R D U D R R U U U R R"),
        checked=_CHECKED,
        key="GROQ_API_KEY",
        base_url="https://api.groq.com/openai/v1",
        mends="thoughts of other providers do not go there",
    ),
    Support(
        name="gemini",
        title="Gemini, OpenAI surface",
        prefix="gemini",
        example="gemini/gemini-3-pro-preview",
        evidence=_each("D D N D D D D U D N D"),
        checked=_CHECKED,
        key="GEMINI_API_KEY",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        left_out=("prompt_cache_key",),
        mends="schemas go in the subset that it takes; calls of other models get Google's placeholder for a "
        "signature; a text and the calls behind it are one answer",
    ),
    Support(
        name="ollama",
        title="Ollama, llama.cpp",
        prefix="ollama",
        example="ollama/qwen3.5:27b",
        evidence=_each("R F U D D R D U U U R"),
        checked=_CHECKED,
        key="",
        base_url="http://127.0.0.1:11434/v1",
        mends="the system message is the first; `reasoning` goes back",
    ),
    Support(
        name="openrouter",
        title="OpenRouter",
        prefix="openrouter",
        example="openrouter/anthropic/claude-sonnet-4.5",
        evidence=_each("R F R D R R D D D R R"),
        checked=_CHECKED,
        key="OPENROUTER_API_KEY",
        base_url="https://openrouter.ai/api/v1",
        mends="`reasoning_details` go back as they came; Claude's requests have marks for the cache",
    ),
    Support(
        name="xai",
        title="xAI",
        prefix="xai",
        example="xai/grok-4",
        evidence=_each("D D U D D N D U U D D"),
        checked=_CHECKED,
        key="XAI_API_KEY",
        base_url="https://api.x.ai/v1",
        left_out=("reasoning_effort", "stop"),
        mends="a result without a text is `(no output)`",
    ),
    Support(
        name="moonshot",
        title="Moonshot (Kimi)",
        prefix="moonshot",
        example="moonshot/kimi-k2-thinking",
        evidence=_each("D F U U D D U U U U D"),
        checked=_CHECKED,
        key="MOONSHOT_API_KEY",
        base_url="https://api.moonshot.ai/v1",
        mends="after one refusal, answers of other models get a blank `reasoning_content`; ids go back whole",
    ),
)
"""A row for each provider whose rules a fake in the tests enforces."""
