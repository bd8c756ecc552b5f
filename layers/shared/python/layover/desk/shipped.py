"""The package's version, and files that are shipped with it and are not modules of it.

In a checkout they are in its own folders. `pyproject.toml` maps them to `layover/_shipped` in the wheel, so
that an installation finds the same files."""

import re
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The package `layover` itself, of which the layer is made."""
INSTALLED = "_shipped"
"""Folder of the package in which a wheel carries what is outside of the package in a checkout."""


@dataclass(frozen=True)
class Sources:
    """Paths of a deployment's parts. `bundled`: they are in an installed package, not in a checkout."""

    package: Path
    bundled: bool
    functions: Path
    """Folder with a folder for each function, with its `handler.py`. A checkout has `user_agents` there,
    too."""
    examples: Path
    """Folder whose `user_agents` are the agents of `layover demo`."""
    definition: Path
    """The state machine, in the Amazon States Language."""
    flags: Path
    """The CDK's feature flags that the stack is tested with."""
    lock: Path
    """The layer's libraries, as pip's requirements with hashes."""
    migrations: Path
    """Folder with the SQL of the schema."""
    build: Path
    """Folder for what is built and downloaded."""

    @property
    def handlers(self) -> list[str]:
        """Return the names of the functions, in order."""
        return sorted(path.parent.name for path in self.functions.glob("*/handler.py"))


def places(package: Path = PACKAGE) -> Sources:
    """Return the places of the parts, whether or not they are there."""
    inside = package / INSTALLED
    bundled = inside.is_dir()
    # The folders above an installed package are anybody's, and may be too few.
    root = inside if bundled or len(package.parents) < 4 else package.parents[3]
    return Sources(
        package=package,
        bundled=bundled,
        functions=root / "functions",
        examples=root / ("examples" if bundled else "functions"),
        definition=root / ("run.asl.json" if bundled else "infra/run.asl.json"),
        flags=root / "cdk.json",
        lock=root / ("runtime.lock" if bundled else "requirements/runtime.lock"),
        migrations=package / "adapters" / "store" / "postgres" / "migrations",
        # A project's own folder: an installed package may be read only, and serves many projects.
        build=Path(".layover") / "build" if bundled else root / "build",
    )


def sources(package: Path = PACKAGE) -> Sources:
    """Return the places of the parts. Raises FileNotFoundError if one of them is missing."""
    result = places(package)
    for path in (result.functions, result.definition, result.lock, result.migrations):
        if not path.exists():
            raise FileNotFoundError(
                f"layover is installed without {path.name} ({path} is missing): install it again with "
                "`pip install --force-reinstall layover`, or use a complete checkout"
            )
    return result


SHIPPED = places()
"""The places of this package's own parts."""
IS_CHECKOUT = not SHIPPED.bundled
"""True in a checkout, and in an editable installation of one."""
CHECKOUT = PACKAGE.parents[3] if IS_CHECKOUT else None
"""The folder of the checkout; None in an installation."""


def release(package: Path = PACKAGE) -> str:
    """Return the version of Layover. It is read and not imported: the package's facade stands above all."""
    match = re.search(r'^__version__ = "([^"]+)"$', (package / "__init__.py").read_text(), re.M)
    assert match is not None
    return match[1]


def order(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, to compare it; what is not a number counts as the beginning."""
    return tuple(int(part) if part.isdecimal() else 0 for part in version.split("."))
