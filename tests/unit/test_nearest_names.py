"""The end of a sentence about an unknown name: the nearest known one, or the few that there are."""

import subprocess
import sys

import pytest

from layover.errors import UnknownAgent, nearest, unknown_name

OPTIONS = ("timeout", "retries", "trusted")


@pytest.mark.parametrize("name", ["", "zzz", "t" * 200_000, None, 7, ["timeout"]])
def test_nothing_is_near_to_what_is_no_name_or_like_none(name: object) -> None:
    assert nearest(name, OPTIONS) is None
    assert "did you mean" not in unknown_name("option", name, OPTIONS)


def test_names_that_are_few_are_listed_once_in_order() -> None:
    said = unknown_name("option", "zzz", [*OPTIONS, "retries"])
    assert said == "no option 'zzz': choose from 'retries', 'timeout', 'trusted'"


def test_names_that_are_many_are_not_listed() -> None:
    twelve = [f"name_{n:02}" for n in range(12)]
    assert "'name_11'" in unknown_name("tool", "zzz", twelve)
    assert unknown_name("tool", "zzz", [*twelve, "name_12"]) == "no tool 'zzz'"
    assert unknown_name("tool", "zzz", []) == "no tool 'zzz'"


def test_long_value_is_cut() -> None:
    assert len(unknown_name("option", "x" * 10_000, [])) < 120


@pytest.mark.parametrize("name", ["timout", "TIMEOUT", "time_out", "tiemout"])
def test_nearest_name_is_named(name: str) -> None:
    said = unknown_name("option", name, OPTIONS)
    assert said == f"no option {name!r}: did you mean 'timeout'?"


def test_known_name_keeps_its_case() -> None:
    assert nearest("shop", ["Shop", "Support"]) == "Shop"


def test_unknown_agent_is_told_the_nearest_and_not_repeated() -> None:
    message = UnknownAgent("shpo", ["shop", "support"]).message
    assert message == "there is no such agent: did you mean 'shop'? Served are shop, support"
    assert UnknownAgent("zzz", ["shop"]).message == "there is no such agent; served are shop"


def test_nothing_is_compared_before_a_name_is_wrong() -> None:
    # `from layover import wiring` asks the package for a name that it does not have.
    code = (
        "import sys; from layover import wiring, Agent, errors; Agent('shop'); "
        "print('difflib' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
