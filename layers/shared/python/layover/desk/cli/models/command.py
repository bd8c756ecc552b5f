"""`layover models`: its options, and the environment that it looks at."""

import os
from collections.abc import Mapping

from pydantic import ValidationError

from layover.desk.cli.evals import NotRun, agents_of
from layover.desk.cli.models.listing import json_of, lines_of, list_models, of_stage
from layover.desk.failures import report_failure
from layover.errors import unknown_name
from layover.project import Project
from layover.values.deployment.environment import Environment


@report_failure
def main(agents: str | None, stage: str | None, project: Project | None, *, as_json: bool) -> int:
    """Print the listing, and return the exit code: 0, or 2 if there are no agents or no such stage."""
    loaded = agents_of(agents, project)
    variables = _variables_of(stage, project)
    try:
        environment = Environment.model_validate(dict(variables))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise NotRun(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    listing = list_models(loaded, environment, variables)
    print(json_of(listing) if as_json else "\n".join(lines_of(listing)))
    return 0


def _variables_of(stage: str | None, project: Project | None) -> Mapping[str, str]:
    """Return the variables of a stage, else those of this environment, with the project's `.env`. Raises
    NotRun."""
    if stage is None:
        return os.environ
    if project is None:
        raise NotRun("--stage needs a layover.toml: run it in a project")
    stages = project.settings.stages
    if stage not in stages:
        raise NotRun(unknown_name("stage", stage, stages))
    return of_stage(stages[stage], project.settings.deploy.region)
