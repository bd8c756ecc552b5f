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
    """Metrics that stay in memory: a test looks at what Layover counted.

    Args:
        counted: The values so far, in order: `name`, `value`, `unit` and `dimensions` each. Default: none
            yet.

    Example:
        ```python
        import asyncio

        from layover import Agent, Memory, ObservationalMemory
        from layover.testing import InMemoryMetrics, ScriptedModel, say
        from layover.wiring import in_memory_runtime

        metrics = InMemoryMetrics()
        memory = Memory(last_messages=2, compaction=ObservationalMemory(message_tokens=200))
        guide = Agent("guide", memory=memory)
        noted = say("* IMPORTANT (09:00) The user sleeps badly on trains")
        model = ScriptedModel([say("I see.")], background={"observer": lambda prompt: noted})
        guide.runtime = in_memory_runtime(guide, model=model, metrics=metrics)


        async def main() -> None:
            await guide.generate("I sleep badly on trains. " * 40, thread_id="t1")
            await guide.wait_for_memory()


        asyncio.run(main())
        made = [each for each in metrics.counted if each.name == "observations_made"]
        assert made[0].value == 1 and made[0].dimensions == {"agent": "guide"}
        assert metrics.total(made[0].name, agent="guide") >= 1
        ```
    """

    counted: list[Counted] = field(default_factory=list)

    def count(
        self, name: Metric, value: float = 1, unit: Unit = "Count", **dimensions: str
    ) -> None:
        """Keep a value.

        Args:
            name: The metric.
            value: The value that is added.
            unit: The unit of the value, as CloudWatch spells it.
            **dimensions: Names and values that it is counted by, such as `agent`.
        """
        self.counted.append(Counted(name, value, unit, dimensions))

    def total(self, name: Metric, **dimensions: str) -> float:
        """Return the sum of the values counted by (at least) these dimensions.

        Args:
            name: The metric.
            **dimensions: Names and values that each value has; none: all values of the metric count.
        """
        return sum(
            c.value
            for c in self.counted
            if c.name is name and dimensions.items() <= c.dimensions.items()
        )
