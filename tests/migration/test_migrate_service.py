"""The migrate function: CloudFormation's events, and a database that is not there yet."""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from tenacity import wait_none

from layover.errors import DatabaseWaking, DefinitionError
from layover.records.migrate import RESOURCE_ID, migrate


@dataclass
class ScriptedMigrator:
    """Raises what it is given, one error a call, then applies."""

    errors: list[Exception] = field(default_factory=list)
    calls: int = 0

    async def apply(self) -> tuple[str, ...]:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return ("0001_pre_initial.sql",)


async def test_a_waking_database_is_waited_for() -> None:
    migrator = ScriptedMigrator([DatabaseWaking("asleep")] * 3)
    answer = await migrate({"RequestType": "Create"}, migrator, pause=wait_none())
    assert migrator.calls == 4
    assert answer["PhysicalResourceId"] == RESOURCE_ID


async def test_a_database_that_never_wakes_fails_the_deploy() -> None:
    migrator = ScriptedMigrator([DatabaseWaking("asleep")])
    with pytest.raises(DatabaseWaking):
        await migrate({}, migrator, patience=timedelta(0), pause=wait_none())


async def test_a_defect_is_not_tried_again() -> None:
    migrator = ScriptedMigrator([DefinitionError("edited")])
    with pytest.raises(DefinitionError):
        await migrate({"RequestType": "Update"}, migrator, pause=wait_none())
    assert migrator.calls == 1


async def test_deleting_the_stack_connects_to_nothing() -> None:
    migrator = ScriptedMigrator([DatabaseWaking("gone")])
    event = {"RequestType": "Delete", "PhysicalResourceId": RESOURCE_ID}
    answer = await migrate(event, migrator)
    assert migrator.calls == 0
    assert answer["PhysicalResourceId"] == RESOURCE_ID


@pytest.mark.parametrize("event", [{}, {"RequestType": "Create"}, {"RequestType": "Update"}])
async def test_every_deploy_keeps_the_resource(event: dict[str, str]) -> None:
    answer = await migrate(event, ScriptedMigrator())
    assert answer == {
        "PhysicalResourceId": RESOURCE_ID,
        "Data": {"Applied": "0001_pre_initial.sql"},
    }
