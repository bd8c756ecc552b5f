"""Metrics as lines of CloudWatch's embedded metric format on stdout, which need no call and no waiting."""

import json
import sys
from collections.abc import Iterable
from typing import Any

from layover.values.metrics import NAMESPACE, Metric, Unit

_HEAD = "_aws"
_MAX_METRICS = 99
"""The most values of one document. At the hundredth the provider would print by itself."""

_Dimensions = tuple[tuple[str, str], ...]
_Value = tuple[str, Unit, float]


class EmfMetrics:
    """`ports.Metrics`. Values are kept until `flush`; nothing is imported before there is something to
    publish."""

    def __init__(self, service: str = "layover") -> None:
        self._service = service
        self._values: dict[_Dimensions, list[_Value]] = {}

    def count(
        self, name: Metric, value: float = 1, unit: Unit = "Count", **dimensions: str
    ) -> None:
        """Note a value for the end of the invocation."""
        by = tuple(sorted(dimensions.items()))
        self._values.setdefault(by, []).append((name.value, unit, value))

    def flush(self) -> None:
        """Write the values: one line, unless a name was counted by several dimensions."""
        values_by_dimensions, self._values = self._values, {}
        documents = [
            _document(self._service, dict(by), values[start : start + _MAX_METRICS])
            for by, values in values_by_dimensions.items()
            for start in range(0, len(values), _MAX_METRICS)
        ]
        for document in _merge(documents):
            # One write for each line, so that output of a tool's thread cannot split it.
            sys.stdout.write(json.dumps(document, separators=(",", ":")) + "\n")
            sys.stdout.flush()


def _document(service: str, dimensions: dict[str, str], values: Iterable[_Value]) -> dict[str, Any]:
    """Return a document with each metric in total, and by its dimensions."""
    from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
        AmazonCloudWatchEMFProvider,
    )

    provider = AmazonCloudWatchEMFProvider(
        namespace=NAMESPACE, default_dimensions={"service": service}, dimension_set={}
    )
    if dimensions:
        provider.add_dimensions(**dimensions)
    for name, unit, value in values:
        provider.add_metric(name, unit, value)
    return dict(provider.serialize_metric_set())


def _merge(documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the documents in as few lines as possible: a line has one value for each name."""
    lines: list[dict[str, Any]] = []
    for document in documents:
        for line in lines:
            if all(line[key] == document[key] for key in line.keys() & document.keys() - {_HEAD}):
                directives = line[_HEAD]["CloudWatchMetrics"] + document[_HEAD]["CloudWatchMetrics"]
                line |= document | {_HEAD: line[_HEAD] | {"CloudWatchMetrics": directives}}
                break
        else:
            lines.append(document)
    return lines
