"""Tools that a provider runs itself, and the API that has them."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from layover.declare.option_names import named_options
from layover.declare.schemas import checks
from layover.errors import DefinitionError
from layover.values.prompt import Api, ProviderTool


@named_options(lambda *_, **__: "web_search")
def web_search(
    *,
    allowed_domains: Sequence[str] = (),
    search_context_size: Literal["low", "medium", "high"] | None = None,
    user_location: dict[str, str] | None = None,
) -> ProviderTool:
    """Return OpenAI's own search of the web, for `Agent(provider_tools=[...])`.

    The provider is paid for each search: `usage` counts only tokens.

    Args:
        allowed_domains: Domains that it may search, without `https://`; empty: all.
        search_context_size: How much of what it finds the model reads; None: the provider's default.
        user_location: Where the user is, roughly: any of `country` (two letters), `city`, `region` and
            `timezone` (an IANA name); None: not sent.

    Example:
        ```python
        from layover import Agent, web_search

        search = web_search(allowed_domains=["python.org"], user_location={"country": "DE"})
        scout = Agent("scout", model="openai/gpt-5-mini", api="responses", provider_tools=[search])
        assert scout.provider_tools == (search,)
        assert search.options["filters"] == {"allowed_domains": ["python.org"]}
        ```
    """
    options: dict[str, Any] = {}
    if allowed_domains:
        options["filters"] = {"allowed_domains": list(allowed_domains)}
    if search_context_size is not None:
        options["search_context_size"] = search_context_size
    if user_location is not None:
        options["user_location"] = {"type": "approximate", **user_location}
    return ProviderTool(type="web_search", options=options)


def wire_of(what: str, api: Any, tools: Any) -> tuple[Api, tuple[ProviderTool, ...]]:
    """Return the API of an agent, and the provider's tools that it has there. Raises DefinitionError."""
    checks.one_of(f"{what}api", api, get_args(Api))
    if isinstance(tools, str | ProviderTool) or not isinstance(tools, Sequence):
        raise checks.fail(f"{what}provider_tools", "a list of the provider's tools", tools)
    for tool in tools:
        if not isinstance(tool, ProviderTool):
            raise checks.fail(f"{what}a provider's tool", "made by web_search()", tool)
    if tools and api != "responses":
        raise DefinitionError(f'{what}provider_tools need api="responses", not {api!r}')
    return api, tuple(tools)
