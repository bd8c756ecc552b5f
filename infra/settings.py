"""Needs of this deployment's functions that no file of a stage can express."""

from collections.abc import Mapping
from typing import Any

from layover.desk.cdk.settings import FUNCTIONS as STANDARD
from layover.desk.cdk.settings import FunctionSettings, Statement

FUNCTIONS: Mapping[str, FunctionSettings] = STANDARD
"""Memory and time of each function: `{**STANDARD, "turn": FunctionSettings(...)}`."""

# What your tools need besides the packages in functions/user_agents/requirements.txt. Only the functions that
# run tools (turn and resume) get secrets and policies. api and streams do not, although they make an agent's
# deps and ask its hooks when a run is cancelled while it waits (docs/hooks.md#points).
TOOL_ENV: Mapping[str, str] = {}
"""Environment variables of every function that imports the agents. They are in plain sight, so nothing secret
belongs here."""
TOOL_SECRETS: Mapping[str, str] = {}
"""Environment variable -> name of an SSM SecureString parameter, or ARN of a secret of Secrets Manager. The
variable holds that, and the functions may read it: `{"SHOP_KEY": "/shop/api-key"}`."""
TOOL_POLICIES: tuple[Statement, ...] = ()
"""`Statement(actions=("ses:SendEmail",), resources=("arn:...",))`."""

IN_CODE: Mapping[str, Any] = {
    "functions": FUNCTIONS,
    "tool_env": TOOL_ENV,
    "tool_secrets": TOOL_SECRETS,
    "tool_policies": TOOL_POLICIES,
}
