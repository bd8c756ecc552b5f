"""Settings, made of the variables of a process."""

import pytest

from layover.values.deployment.access import Access
from layover.values.deployment.environment import Environment
from layover.values.deployment.settings import Settings

DERIVED = {
    "access": "of the variables of sign-in",
    "entry_retention": "of days",
    "max_history": "Step Functions' limit, and no variable",
    "provider_patience": "of seconds",
    "run_retention": "of days",
    "sweep_patience": "of seconds",
    "thread_retention": "of days",
    "traces": "of the receiver's URL",
}


@pytest.mark.parametrize("name", Access.model_fields)
def test_each_field_of_access_is_read_from_its_variable(name: str) -> None:
    environment = Environment.model_validate({f"LAYOVER_{name.upper()}": "given"})
    assert getattr(environment.settings.access, name) == "given"


@pytest.mark.parametrize("name", sorted(Settings.model_fields.keys() - DERIVED.keys()))
def test_each_setting_has_its_variable(name: str) -> None:
    assert name in Environment.model_fields


def test_settings_without_variables_are_the_defaults() -> None:
    assert Environment().settings == Settings()
