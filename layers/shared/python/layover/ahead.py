"""Modules that every invocation uses, imported before the first (docs/performance.md#cold-starts)."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module

from layover.adapters.http.tls import system_trust
from layover.errors import ConfigurationError

_JOURNAL = (
    "layover.adapters.journal.journal",
    "layover.adapters.journal.allowance",
    "layover.adapters.journal.items.dynamodb",
    "layover.adapters.aws.services",
    "layover.adapters.metrics.emf",
    "aws_lambda_powertools.logging.formatter",
    "aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch",
)
_STORES = (
    "layover.adapters.store.postgres.threads",
    "layover.plugins.memory.postgres.additions",
    "layover.plugins.memory.postgres.memory",
    "psycopg",
)
_MEMORY = ("layover.plugins.memory.reads.turns",)
_STARTS = ("layover.adapters.callbacks.stepfunctions",)
_MODEL = ("layover.plugins.models.providers", "layover.adapters.http.direct")
_PRICES = ("layover.plugins.models.prices", "layover.plugins.models.catalogue")

MODULES: Mapping[str, tuple[str, ...]] = {
    "api": (*_JOURNAL, *_STORES, *_STARTS),
    "resume": (*_JOURNAL, *_STARTS),
    "turn": (*_JOURNAL, *_STORES, *_MEMORY, *_MODEL, *_PRICES),
}
"""By function. The modules that other functions need differ from one event to the next."""


_TRACES = "layover.plugins.traces.otlp"


def import_all(function: str, agents: Callable[[], object], *, traces: bool = False) -> None:
    """Import, and define the user's agents. Opens no connection and reads no credential, because a snapshot
    of the process may be restored many times. Whatever fails here fails again, and is reported, where it is
    used."""
    names = MODULES[function]
    # `api` accepts runs and takes none.
    for name in (*names, _TRACES) if traces and function != "api" else names:
        with suppress(ImportError):
            import_module(name)
    with suppress(ConfigurationError):
        system_trust()
    try:
        agents()
    except Exception as error:
        extra = {"cause": type(error).__name__}
        logging.getLogger("layover").warning("the agents were not loaded ahead", extra=extra)
