"""Models of Amazon Bedrock by their ids, as settings name them."""

import re
from collections.abc import Iterable

from layover.values.deployment.providers import BEDROCK_PREFIX

TITAN = "amazon.titan-embed-text-"
ID = re.compile(r"[a-z0-9][A-Za-z0-9.:_-]*")
"""No wildcard, no ARN, no maker before a slash."""


def ids(names: Iterable[str | None], *, every: bool) -> tuple[str, ...]:
    """Return the ids, each once: of every name, or of those that begin with `bedrock/`."""
    full_names = (name for name in names if name and (every or name.startswith(BEDROCK_PREFIX)))
    return tuple(dict.fromkeys(name.removeprefix(BEDROCK_PREFIX) for name in full_names))


def check(setting: str, names: Iterable[str]) -> None:
    """Raise ValueError for a name that is no id."""
    for name in names:
        if not ID.fullmatch(name):
            raise ValueError(f"Bedrock wants {setting} by id, not {name!r}")


def check_embedders(embedders: tuple[str, ...]) -> None:
    """Raise ValueError for a name that is no id, or that has no adapter."""
    check("an embedder_model", embedders)
    if not all(name.startswith(TITAN) for name in embedders):
        raise ValueError(f"Bedrock has embedder_model=bedrock/{TITAN}v2:0 and no other")


def check_alone(model: str | None, *, has_key: bool) -> None:
    """Raise ValueError for settings that are impossible without another provider."""
    if not model:
        raise ValueError("provider=bedrock needs a model: no role allows all of them")
    if has_key:
        raise ValueError("provider=bedrock asks no openai_base_url and has no api_key_parameter")
