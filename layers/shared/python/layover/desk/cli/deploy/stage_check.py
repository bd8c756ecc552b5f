"""Lacks of a stage, as the project's code, its `.env` and an import of the agents tell them."""

import ast
import asyncio
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from layover.desk.cdk.lacks import Failure, Lack, app_files, lacks_of, variables_of_import
from layover.desk.cdk.reading import name_of, trees_of
from layover.desk.cdk.settings import Settings
from layover.desk.cli.serve_options import Options, settings_of
from layover.desk.failures import CommandFailed
from layover.desk.local.serve import dot_env
from layover.project import Project

Load = Callable[[Mapping[str, str]], "str | None"]
"""Imports the agents with these variables only; returns `FILE:LINE: ERROR: text`, or None."""
_MISSING = re.compile(r"KeyError: '([A-Za-z_]\w*)'$")
_OF_MACHINE = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "VIRTUAL_ENV", "PYTHONPATH")
_MOST = 20
"""Imports that are tried: each finds one variable."""


def lacks(project: Project, context: Mapping[str, Any], load: Load | None = None) -> Sequence[Lack]:
    """Return what a stage lacks. `context`: names it, as the CDK's command line does, with further settings.
    `load`: imports the agents; without it they are only read. Raises ValueError for settings that make no
    sense, unless the project's CDK app may add to them: it says so itself then."""
    try:
        settings = Settings.from_context(context, root=project.root)
    except ValueError:
        if _app_adds(project):
            return ()
        raise
    own = dot_env(project.root)
    failures = [] if load is None else list(_failures(settings, own, load))
    return lacks_of(project, settings, dot_env=own, failures=failures)


def loader(project: Project) -> Load:
    """Return what imports the agents of a project, in a process of their own, as functions do."""

    def load(variables: Mapping[str, str]) -> str | None:
        from layover.desk.local import agents_module
        from layover.desk.local.settings import child_variables

        try:
            settings = settings_of(project, Options())
        except CommandFailed:
            return None
        machine = {name: os.environ[name] for name in _OF_MACHINE if name in os.environ}
        process = child_variables(settings, {**machine, **variables}, {})
        return asyncio.run(agents_module.load(process)).problem

    return load


def _failures(settings: Settings, own: Mapping[str, str], load: Load) -> Iterator[Failure]:
    """Yield why the agents cannot be imported with the variables of the stage, if they can be with those of
    this machine."""
    variables = dict(variables_of_import(settings))
    problem, invents = load(variables), False
    for _ in range(_MOST):
        match = _MISSING.search(problem or "")
        if problem is None or match is None or match[1] in variables:
            break
        name, before = match[1], problem
        invents |= name not in own
        variables[name] = own.get(name, "1")
        problem = load(variables)
        if problem == before:
            # A key of something else.
            del variables[name]
            break
        yield Failure(name, before)
    if problem is not None and not invents and own and load({**variables, **own}) is None:
        yield Failure("", problem)


def _app_adds(project: Project) -> bool:
    """Return whether the project's CDK app gives settings by its code."""
    calls = [
        node
        for tree in trees_of(Path(each) for each in app_files(project)).values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and name_of(node.func) == "from_context"
    ]
    return not calls or any(len(call.args) + len(call.keywords) > 1 for call in calls)
