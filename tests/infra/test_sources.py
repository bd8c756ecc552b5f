"""The places of what a deployment is made of, in a checkout and in an installed package."""

from pathlib import Path

import pytest

from layover.desk.cdk.settings import FUNCTIONS
from layover.desk.shipped import INSTALLED, sources

ROOT = Path(__file__).parents[2]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An installed package with all that a wheel carries."""
    package = tmp_path / "lib" / "python3.13" / "site-packages" / "layover"
    (package / "adapters" / "store" / "postgres" / "migrations").mkdir(parents=True)
    for name in ("api", "turn"):
        (package / INSTALLED / "functions" / name).mkdir(parents=True)
        (package / INSTALLED / "functions" / name / "handler.py").touch()
    (package / INSTALLED / "run.asl.json").touch()
    (package / INSTALLED / "runtime.lock").touch()
    return package


def test_checkout_has_them_next_to_the_layers() -> None:
    found = sources()
    assert not found.bundled
    assert found.functions == ROOT / "functions"
    assert found.definition == ROOT / "infra" / "run.asl.json"
    assert found.lock == ROOT / "requirements" / "runtime.lock"
    assert found.build == ROOT / "build"
    assert found.handlers == sorted(FUNCTIONS)


def test_installed_package_has_them_inside(package: Path) -> None:
    found = sources(package)
    assert found.bundled
    assert found.handlers == ["api", "turn"]
    assert found.definition.parent == found.lock.parent == package / INSTALLED


def test_installed_package_builds_in_the_project(package: Path) -> None:
    """It may be read only, and serves many projects."""
    assert not sources(package).build.is_absolute()


@pytest.mark.parametrize("name", ["run.asl.json", "runtime.lock"])
def test_package_that_lacks_a_part_is_named_with_the_way_out(package: Path, name: str) -> None:
    (package / INSTALLED / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"without {name} .*--force-reinstall layover"):
        sources(package)


def test_package_without_any_of_it_is_named(package: Path) -> None:
    (package / INSTALLED).rename(package / "elsewhere")
    with pytest.raises(FileNotFoundError, match="install it again"):
        sources(package)
