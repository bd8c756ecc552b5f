"""The function that migrates the schema: a custom resource on deploy, a plain invocation elsewhere."""

from typing import Any

from layover.collector import collector_at_rest

with collector_at_rest():
    import asyncio

    from functions.migrate.cloudformation import answer_cloudformation
    from layover import wiring
    from layover.records.migrate import migrate


@wiring.with_logging
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer CloudFormation's Create, Update or Delete at the event's `ResponseURL`; or `{}`."""

    def work() -> dict[str, Any]:
        return asyncio.run(migrate(event, wiring.migrator()))

    return answer_cloudformation(event, work) if "ResponseURL" in event else work()
