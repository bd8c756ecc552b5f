"""`layover models`: the providers and models that a deployment can reach. Asks nobody."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from layover.declare.agent import Agent
from layover.desk.cdk.settings import VARIABLES
from layover.desk.cli.models.table import SUPPORT, Support
from layover.plugins.models.prices import cost, look_up_first, window_of
from layover.plugins.models.providers import can_serve
from layover.values.deployment.environment import Environment
from layover.values.deployment.providers import BEDROCK_PREFIX, KEYED, split_model
from layover.values.runs.usage import Usage

_MILLION = 1_000_000
_OF_STAGE = {
    name: VARIABLES[name]
    for name in ("provider", "providers", "model", "context_windows", "openai_base_url")
} | {"api_key_parameter": "LAYOVER_API_KEY_PARAMETER"}
"""Variables by the settings of a stage."""

_OWN = "an object of the agent's author"
"""In place of a provider: what it reaches, and what works there, is the author's."""


@dataclass(frozen=True)
class ProviderLine:
    """A provider. `set`: what to set so that it can be asked; "" if it can be."""

    name: str
    configured: bool
    set: str


@dataclass(frozen=True)
class ModelLine:
    """A model of an agent's. Prices in US dollars for a million tokens; None: nobody knows. `set`: what to
    set so that it can be asked, or so that its window is known."""

    agent: str
    model: str
    provider: str
    reachable: bool
    input_usd: Decimal | None
    output_usd: Decimal | None
    window: int | None
    features: tuple[str, ...]
    set: str


@dataclass(frozen=True)
class Listing:
    """All of them."""

    providers: tuple[ProviderLine, ...]
    models: tuple[ModelLine, ...]


def of_stage(settings: Mapping[str, Any], region: str | None) -> dict[str, str]:
    """Return the variables about models that a stage of `layover.toml` gives its functions."""
    values = {name: settings[key] for key, name in _OF_STAGE.items() if settings.get(key)}
    variables = {n: v if isinstance(v, str) else json.dumps(v) for n, v in values.items()}
    # A stage always has a region; this command need not know it.
    return {"AWS_REGION": region or "the stage's", **variables}


def list_models(
    agents: Mapping[str, Agent], environment: Environment, variables: Mapping[str, str]
) -> Listing:
    """Return what this environment can reach. `variables`: the process's, for the keys that it names."""
    models = [
        _line(agent, model, environment, variables)
        for agent in agents.values()
        for model in (environment.model if agent.model is None else agent.model, *agent.fallbacks)
    ]
    return Listing(tuple(_providers(environment, variables)), tuple(models))


def _providers(environment: Environment, variables: Mapping[str, str]) -> Iterator[ProviderLine]:
    own = environment.provider
    yield ProviderLine(own, *_state(own, environment, variables))
    further = {name for name in environment.providers if name != own}
    others = {row.name for row in SUPPORT if row.prefix == row.name and row.name != own}
    for name in sorted(further | others):
        yield ProviderLine(name, *_state(name, environment, variables))


def _state(name: str, environment: Environment, variables: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether a provider can be asked, and else what to set."""
    if name in environment.providers:
        variable = environment.providers[name].api_key_env
        if variable and not variables.get(variable):
            return False, f"set {variable}"
        return True, ""
    if name == BEDROCK_PREFIX.rstrip("/"):
        # A role, a profile or keys: only AWS can say whether one of them is there.
        has_region = bool(variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION"))
        return has_region, "" if has_region else "set AWS_REGION, and credentials of AWS"
    if name == environment.provider:
        can = can_serve(environment, "x")
        return can, "" if can else "set OPENAI_API_KEY, or OPENAI_BASE_URL of a server of yours"
    return False, _how_to_add(name)


def _how_to_add(name: str) -> str:
    if name in KEYED:
        return f"set {KEYED[name].key}"
    row = next((row for row in SUPPORT if row.name == name), None)
    if row is None or not row.base_url:
        return "set OPENAI_API_KEY, and LAYOVER_PROVIDER=openai"
    address = {"base_url": row.base_url} | ({"api_key_env": row.key} if row.key else {})
    added = f"set LAYOVER_PROVIDERS={json.dumps({name: address})}"
    return f"{added} and {row.key}" if row.key else added


def _line(
    agent: Agent, model: str, environment: Environment, variables: Mapping[str, str]
) -> ModelLine:
    is_own = model in agent.own_models
    provider, _ = (_OWN, model) if is_own else split_model(model, environment.providers)
    if provider is None:
        is_bedrock = model.startswith(BEDROCK_PREFIX)
        provider = BEDROCK_PREFIX.rstrip("/") if is_bedrock else environment.provider
    reachable, to_set = (True, "") if is_own else _state(provider, environment, variables)
    window = agent.model_settings.context_window or window_of(model, environment)
    if reachable and window is None:
        to_set = f'set LAYOVER_CONTEXT_WINDOWS={{"{model}": TOKENS}}'
    row = _row(provider, agent.api, environment)
    return ModelLine(
        agent=agent.name,
        model=model,
        provider=provider,
        reachable=reachable,
        input_usd=_price(model, environment, Usage(input_tokens=_MILLION)),
        output_usd=_price(model, environment, Usage(output_tokens=_MILLION)),
        window=window,
        features=() if row is None else tuple(f for f, k in row.evidence.items() if k != "no"),
        set=to_set,
    )


def _price(model: str, environment: Environment, usage: Usage) -> Decimal | None:
    return look_up_first(lambda name: cost(name, usage), model, environment)


def _row(provider: str, api: str, environment: Environment) -> Support | None:
    """Return what is known of a provider, whatever the deployment calls it; None: nobody knows it."""
    if provider in environment.providers:
        url = environment.providers[provider].base_url.rstrip("/")
        return next((row for row in SUPPORT if row.base_url and url.startswith(row.base_url)), None)
    if provider == "openai" and environment.openai_base_url:
        return None
    rows = [row for row in SUPPORT if row.prefix == provider]
    return rows[-1] if rows and api == "responses" else next(iter(rows), None)


def lines_of(listing: Listing) -> list[str]:
    """Return the lines that a person reads: the agents' models, then the providers, those that are configured
    first."""
    lines = ["models of the agents"]
    for model in listing.models:
        where = model.provider if model.reachable else f"not reachable: {model.set}"
        lines.append(f"  {model.agent}: {model.model} ({where})")
        window = f"{model.window:,} tokens" if model.window else f"not known: {model.set}"
        lines.append(f"    price {_dollars(model)}, window {window}")
        features = (
            ", ".join(model.features) or "not known: docs/reference/models.md lists providers"
        )
        lines.append(f"    works: {features}")
    if not listing.models:
        lines.append("  none")
    groups = {
        "configured providers": [(p.name, "") for p in listing.providers if p.configured],
        "others, and what each needs": [
            (p.name, p.set) for p in listing.providers if not p.configured
        ],
    }
    for title, providers in groups.items():
        rows = [f"  {name:<12} {to_set}".rstrip() for name, to_set in providers]
        lines += ["", title, *(rows or ["  none"])]
    return lines


def _dollars(model: ModelLine) -> str:
    if model.input_usd is None or model.output_usd is None:
        return "not known: limits in dollars do not hold, those in tokens do"
    return f"{model.input_usd:.2f} / {model.output_usd:.2f} USD for a million tokens in / out"


def json_of(listing: Listing) -> str:
    """Return the listing as JSON. Prices are texts, so that they stay exact."""
    whole: Any = asdict(listing)
    return json.dumps(whole, default=str, indent=2)
