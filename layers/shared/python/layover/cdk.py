"""Layover on AWS: the construct for a stack of one's own (`pip install 'layover[cdk]'`).

Names are loaded when they are first used: importing the CDK starts a process of Node's, and settings, checks
and builds need none. It all lives in `layover.desk.cdk`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from layover.desk.cdk.construct import Layover
    from layover.desk.cdk.props import Database, Domain, InvalidProps
    from layover.desk.cdk.settings import FunctionSettings, Settings, Statement

_HOME = {
    "Layover": "construct",
    "Database": "props",
    "Domain": "props",
    "InvalidProps": "props",
    "FunctionSettings": "settings",
    "Settings": "settings",
    "Statement": "settings",
}
__all__ = [
    "Database",
    "Domain",
    "FunctionSettings",
    "InvalidProps",
    "Layover",
    "Settings",
    "Statement",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        from layover.errors import no_attribute

        raise no_attribute(__name__, [], name, __all__)
    try:
        return getattr(import_module(f"layover.desk.cdk.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("aws_cdk", "constructs", "jsii"):
            raise
        raise ImportError(
            f"{name} needs the CDK, and {error.name} is not installed: pip install 'layover[cdk]'"
        ) from error
