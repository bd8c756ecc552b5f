"""Files that are shipped with the package and are not modules of it.

In a checkout they are in its own folders. `pyproject.toml` maps them to `layover/_shipped` in the wheel, so
that an installation finds the same files."""

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
