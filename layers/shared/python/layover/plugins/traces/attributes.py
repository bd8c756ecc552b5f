"""Attributes of spans, by their names in the semantic conventions for generative AI. What these have no name
for begins with `layover.`."""

from layover.values.prompt import Prompt, Reply
from layover.values.runs.run import CallRecord, RunMeta, StepRecord
from layover.values.runs.usage import Usage
from layover.values.span import Attribute, EmbeddingRequest, MemoryRead
from layover.values.tokens import estimate

OPERATION = "gen_ai.operation.name"
AGENT = "gen_ai.agent.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
TOOL = "gen_ai.tool.name"
ERROR = "error.type"
_PROVIDERS = {
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""Providers that the conventions call otherwise than the names of models do."""

Attributes = dict[str, Attribute]


def of_run(run: RunMeta) -> Attributes:
    """Return what every span of a run has."""
    return {"gen_ai.conversation.id": run.thread_id, "layover.run.id": run.id}


def of_model(name: str) -> Attributes:
    """Return what the name of a model says: `openai/gpt-5-mini` is asked of `openai`."""
    prefix, slash, rest = name.partition("/")
    if not slash:
        return {REQUEST_MODEL: name}
    return {PROVIDER: _PROVIDERS.get(prefix, prefix), REQUEST_MODEL: rest}


def of_request(prompt: Prompt) -> Attributes:
    """Return what a request says about itself, without its content."""
    settings = prompt.settings
    values: dict[str, Attribute | None] = {
        **of_model(prompt.model),
        "gen_ai.request.max_tokens": settings.max_tokens,
        "gen_ai.request.temperature": settings.temperature,
        "gen_ai.request.top_p": settings.top_p,
        "gen_ai.output.type": "json" if prompt.output is not None else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def of_usage(usage: Usage) -> Attributes:
    """Return the tokens of one request, and their price."""
    values: dict[str, Attribute] = {
        INPUT_TOKENS: usage.input_tokens,
        OUTPUT_TOKENS: usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_input_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }
    values = {name: value for name, value in values.items() if value or name in _ALWAYS}
    if usage.cost_usd is not None:
        values["layover.cost_usd"] = float(usage.cost_usd)
    return values


_ALWAYS = (INPUT_TOKENS, OUTPUT_TOKENS)


def of_answer(reply: Reply) -> Attributes:
    """Return what a reply says about itself, without its content."""
    return {
        RESPONSE_MODEL: reply.model.partition("/")[2] or reply.model,
        **of_usage(reply.usage),
    }


def of_embedding(answer: EmbeddingRequest) -> Attributes:
    """Return what an embedder says about its answer."""
    values: Attributes = {}
    if answer.model is not None:
        values[RESPONSE_MODEL] = answer.model.partition("/")[2] or answer.model
    if answer.usage is not None:
        values[INPUT_TOKENS] = answer.usage.input_tokens
    return values


def of_total(usage: Usage) -> Attributes:
    """Return the tokens of a whole run. They have names of ours: receivers add up those of the conventions,
    and would count each request twice."""
    values: Attributes = {
        "layover.usage.input_tokens": usage.input_tokens,
        "layover.usage.output_tokens": usage.output_tokens,
    }
    if usage.cost_usd is not None:
        values["layover.usage.cost_usd"] = float(usage.cost_usd)
    return values


def of_reply(step: StepRecord) -> Attributes:
    """Return what a step says about the reply that made it."""
    return {
        RESPONSE_MODEL: step.model.partition("/")[2] or step.model,
        "gen_ai.response.finish_reasons": (step.finish_reason,),
        "layover.step": step.index,
        **of_usage(step.counts_as),
        **({"layover.fell_back": True} if step.fell_back_to else {}),
    }


def of_read(read: MemoryRead) -> Attributes:
    """Return the numbers of what memory gave, and its tokens, by estimate."""
    return {
        "layover.memory.notes": read.notes,
        "layover.memory.messages": read.messages,
        "layover.memory.entries": read.entries,
        "layover.memory.observations": read.observations,
        "layover.memory.tokens": sum(estimate(str(text)) for text in read.texts),
    }


def of_call(call: CallRecord) -> Attributes:
    """Return what a call says about itself, without its content."""
    return {TOOL: call.tool_name, "gen_ai.tool.call.id": call.tool_call_id}
