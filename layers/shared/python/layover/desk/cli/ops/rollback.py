"""`layover ops rollback`: back to what was deployed before."""

from layover.desk.cdk.rollback import NoWayBack, choose, current, deployments, listing, move
from layover.desk.cdk.settings import Settings
from layover.desk.cli.users import Client, client_at
from layover.desk.failures import CommandFailed, report_failure
from layover.project import DeploySettings, Project, ProjectInvalid


@report_failure
def rollback(
    project: Project | None, at: DeploySettings, to: str | None, client: Client | None = None
) -> int:
    """Print the deployments of a stage that are still there, once the aliases have moved to `to` (a digest or
    `previous`; None: they stay). `at`: stage, profile and region. The exit code."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        if project is not None:
            project.stage(at.stage)
        settings = Settings.from_context(
            {"stage": at.stage}, root=None if project is None else project.root
        )
        functions = (client or client_at(at))("lambda")
        now = current(settings, functions)
        everything = deployments(settings, functions)
        if to is not None:
            target = choose(everything, now, to)
            move(settings, functions, target, now)
            now = dict(target.versions)
    except (ProjectInvalid, ValueError) as error:
        raise CommandFailed(str(error)) from error
    except (NoWayBack, BotoCoreError, ClientError) as error:
        raise CommandFailed(str(error), 1) from error
    for line in listing(everything, now):
        print(line)
    return 0
