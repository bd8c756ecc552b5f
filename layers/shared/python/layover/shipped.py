"""Files that are shipped with the package and are not modules of it.

In a checkout they are in its own folders. `pyproject.toml` maps them to `layover/_shipped` in the wheel, so
that an installation finds the same files."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
_INSTALLED = PACKAGE / "_shipped"
_CHECKOUT = PACKAGE.parents[3]

IS_CHECKOUT = not _INSTALLED.is_dir()
"""True in a checkout, and in an editable installation of one."""
FUNCTIONS = _CHECKOUT / "functions" if IS_CHECKOUT else _INSTALLED / "functions"
"""One folder with a `handler.py` for each function. A checkout has `user_agents` there, too."""
EXAMPLES = _CHECKOUT / "functions" if IS_CHECKOUT else _INSTALLED / "examples"
"""The folder whose `user_agents` are the agents of `layover demo`."""
STATE_MACHINE = _CHECKOUT / "infra" / "run.asl.json" if IS_CHECKOUT else _INSTALLED / "run.asl.json"
"""The definition of the state machine, in the Amazon States Language."""
CDK_FLAGS = _CHECKOUT / "cdk.json" if IS_CHECKOUT else _INSTALLED / "cdk.json"
"""The CDK's feature flags that the stack is tested with."""
LAYER_LOCK = (
    _CHECKOUT / "requirements" / "runtime.lock" if IS_CHECKOUT else _INSTALLED / "runtime.lock"
)
"""The locked packages of the Lambda layer, with their hashes."""
MIGRATIONS = PACKAGE / "adapters" / "store" / "postgres" / "migrations"
"""The migrations of the SQL schema."""
