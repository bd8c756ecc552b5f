"""The further providers of a stage's models (`LAYOVER_PROVIDERS`), and the windows of these
(`LAYOVER_CONTEXT_WINDOWS`)."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from layover.values.deployment.providers import ProviderAddress, ProviderAddresses


def _decode(value: Any) -> Any:
    """Decode the JSON of the command line."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        # The text is not repeated: it may hold a key.
        raise ValueError(
            f"providers must be JSON, like {{NAME: {{base_url: ...}}}}: {error}"
        ) from None


def _no_key_in_sight(providers: Mapping[str, ProviderAddress]) -> Mapping[str, ProviderAddress]:
    if plain := [name for name, each in providers.items() if each.api_key_env]:
        raise ValueError(
            f"the key of {plain[0]} would be in plain sight: name an api_key_parameter"
        )
    return providers


FurtherProviders = Annotated[
    ProviderAddresses, BeforeValidator(_decode), AfterValidator(_no_key_in_sight)
]


ContextWindows = Annotated[Mapping[str, Annotated[int, Field(ge=1)]], BeforeValidator(_decode)]


def windows_as_variable(windows: Mapping[str, int]) -> str | None:
    """Return `LAYOVER_CONTEXT_WINDOWS`; None if there are none."""
    return json.dumps(dict(windows), sort_keys=True) if windows else None


def keys_of(providers: Mapping[str, ProviderAddress]) -> tuple[str, ...]:
    """Return the names of the SSM parameters with their keys, each once."""
    parameters = (each.api_key_parameter for each in providers.values())
    return tuple(dict.fromkeys(name for name in parameters if name))


def as_variable(providers: Mapping[str, ProviderAddress]) -> str | None:
    """Return `LAYOVER_PROVIDERS`; None if there are none."""
    document = {name: each.model_dump(exclude_defaults=True) for name, each in providers.items()}
    return json.dumps(document, sort_keys=True, separators=(",", ":")) if document else None
