"""A project's CDK app, run so that what Layover refuses ends it with a sentence: `python -m
layover.desk.cdk.app infra.app`."""

import runpy
import sys
from collections.abc import Sequence

from layover.desk.cdk.build import BuildFailed
from layover.desk.cdk.props import InvalidProps
from layover.desk.cdk.settings import SettingsInvalid
from layover.desk.cdk.variables import VariablesTooLarge
from layover.project import ProjectInvalid

_REFUSALS = (BuildFailed, InvalidProps, ProjectInvalid, SettingsInvalid, VariablesTooLarge)
"""Errors of Layover's whose message says what the author of the app has to do."""


def main(arguments: Sequence[str]) -> None:
    """Run the module of the app as Python runs it by itself. Its own errors keep their tracebacks."""
    (module,) = arguments
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except _REFUSALS as error:
        sys.exit(f"layover: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
