"""The package's version, and files that are shipped with it and are not modules of it.

In a checkout they are in its own folders. `pyproject.toml` maps them to `layover/_shipped` in the wheel, so
that an installation finds the same files."""

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
_INSTALLED = PACKAGE / "_shipped"

IS_CHECKOUT = not _INSTALLED.is_dir()
"""True in a checkout, and in an editable installation of one."""


CHECKOUT = PACKAGE.parents[3] if IS_CHECKOUT else None
"""The folder of the checkout; None in an installation."""


def _place(in_checkout: str, in_wheel: str) -> Path:
    # The folders above an installed package are anybody's, and may be too few.
    return PACKAGE.parents[3] / in_checkout if IS_CHECKOUT else _INSTALLED / in_wheel


FUNCTIONS = _place("functions", "functions")
"""One folder with a `handler.py` for each function. A checkout has `user_agents` there, too."""
EXAMPLES = _place("functions", "examples")
"""The folder whose `user_agents` are the agents of `layover demo`."""
STATE_MACHINE = _place("infra/run.asl.json", "run.asl.json")
"""The definition of the state machine, in the Amazon States Language."""
CDK_FLAGS = _place("cdk.json", "cdk.json")
"""The CDK's feature flags that the stack is tested with."""
LAYER_LOCK = _place("requirements/runtime.lock", "runtime.lock")
"""The locked packages of the Lambda layer, with their hashes."""
MIGRATIONS = PACKAGE / "adapters" / "store" / "postgres" / "migrations"
"""The migrations of the SQL schema."""


def release(package: Path = PACKAGE) -> str:
    """Return the version of Layover. It is read and not imported: the package's facade stands above all."""
    match = re.search(r'^__version__ = "([^"]+)"$', (package / "__init__.py").read_text(), re.M)
    assert match is not None
    return match[1]


def order(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, to compare it; what is not a number counts as the beginning."""
    return tuple(int(part) if part.isdecimal() else 0 for part in version.split("."))
