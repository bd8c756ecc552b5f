"""Metrics that stay in memory, for tests and the in-process SDK."""

from dataclasses import dataclass, field

from layover.values.metrics import Metric, Unit


@dataclass(frozen=True)
class Counted:
    """One value that was counted."""

    name: Metric
    value: float
    unit: Unit
    dimensions: dict[str, str]


@dataclass
class InMemoryMetrics:
    """`ports.Metrics`."""

    counted: list[Counted] = field(default_factory=list)

    def count(
        self, name: Metric, value: float = 1, unit: Unit = "Count", **dimensions: str
    ) -> None:
        """Keep a value."""
        self.counted.append(Counted(name, value, unit, dimensions))

    def total(self, name: Metric, **dimensions: str) -> float:
        """Return the sum of the values counted by (at least) these dimensions."""
        return sum(
            c.value
            for c in self.counted
            if c.name is name and dimensions.items() <= c.dimensions.items()
        )
