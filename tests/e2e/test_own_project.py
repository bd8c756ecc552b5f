"""A project of one's own with the built wheel: made, tested, served, approved, changed."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from layover.desk.cli.client import Api
from support.own_project import (
    INSTALL_S,
    MAX_SYNTHESIS_S,
    Environment,
    Installation,
    Serving,
    approved,
    asked_refund,
    bring_roots,
)
from support.system.folders import folder


@pytest.fixture
def place() -> Iterator[Path]:
    with folder("own") as made:
        yield made


def walk(installation: Installation, place: Path) -> None:
    """Make a project, test and serve it, approve a call, change the tool and see the change."""
    assert "made  shop/layover.toml" in installation.run(place, "init", "shop")
    project = place / "shop"
    assert "2 passed" in installation.run(project / "tests", "test")
    with Serving(installation, project / "infra", place / "log") as serving:
        api = Api(serving.told(r"^ready (\S+)$"), "dev:ada")
        assert serving.told(r"^project (.*)$") == str(project)
        assert serving.told(r"^agent support: (.*)$") == "lookup_order, refund (asks a person)"
        assert "Refunded 60.00 euros" in approved(api, *asked_refund(api, 60))
        agents = project / "agents" / "__init__.py"
        agents.write_text(agents.read_text().replace("Refunded {amount", "Paid back {amount"))
        serving.told(r"(reloaded support)")
        assert "Paid back 20.00 euros" in approved(api, *asked_refund(api, 20))
    assert (project / ".layover" / "aws.sqlite").exists()
    assert "Every step held." in installation.run(place, "demo")


def folders(place: Path) -> list[str]:
    """Return the names of the folders in a place."""
    return sorted(each.name for each in place.iterdir() if each.is_dir())


def test_project_is_made_tested_served_approved_and_changed(place: Path) -> None:
    walk(Installation(place), place)
    assert folders(place) == ["shop", "site-packages"]


@pytest.mark.package
def test_fresh_environment_with_the_extra_local_has_all_that_a_project_needs(place: Path) -> None:
    environment = Environment(place)
    environment.install("local")
    walk(environment, place)
    assert folders(place) == [".venv", "shop"]


@pytest.mark.package
def test_fresh_environment_with_both_extras_locks_a_project_and_writes_its_template(
    place: Path,
) -> None:
    """With nothing else but uv, which `layover lock` asks for."""
    if shutil.which("npx") is None:
        pytest.skip("the CDK needs Node on the path")
    environment = Environment(place)
    environment.install("local", "cdk", options=("uv",))
    environment.run(place, "init", "shop")
    project = place / "shop"
    bring_roots(project)
    (project / "agents" / "requirements.txt").write_text("markupsafe\n")
    environment.run(project, "lock", within_s=INSTALL_S)
    own, of_agents = (
        (project / name).read_text() for name in ("requirements.lock", "agents/requirements.lock")
    )
    assert re.search(r"^layover==\S+ \\\n    --hash=sha256:", own, re.M)
    assert re.findall(r"^[a-z].*==", of_agents, re.M) == ["markupsafe=="]
    assert of_agents[of_agents.index("markupsafe") :] in own
    assert "://" not in own + of_agents
    assert environment.run(project, "lock", "--check") == "the locks fit\n"
    environment.fetch(project / "requirements.lock")
    said = environment.run(project, "synth", within_s=MAX_SYNTHESIS_S)
    assert "lacks" not in said
    (speedups,) = (project / ".layover/cdk/functions/markupsafe").glob("*.so")
    assert speedups.name == "_speedups.cpython-313-aarch64-linux-gnu.so"
    (project / "agents" / "requirements.txt").write_text("markupsafe<9\n")
    with pytest.raises(AssertionError, match=r"dev lacks a lock of agents/requirements\.txt"):
        environment.run(project, "synth", within_s=MAX_SYNTHESIS_S)
