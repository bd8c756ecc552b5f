"""The CDK app: `python -m infra.app`, which cdk.json names. It needs neither network nor credentials."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from aws_cdk import App, Tags, Validations
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from infra.settings import IN_CODE
from infra.stack import LayoverStack
from layover.desk.cdk import certificates
from layover.desk.cdk.props import InvalidProps
from layover.desk.cdk.regions import streaming_caution, unfit
from layover.desk.cdk.settings import Settings
from layover.desk.cdk.variables import VariablesTooLarge


def main() -> None:
    """Synthesize into the folder that the CDK's command line names."""
    define(App(analytics_reporting=False)).synth()


def define(app: App) -> App:
    """Put the stack of the stage that the context names into the app. Every finding of the rules is an error.
    Wrong settings end the process."""
    settings = read_settings(app)
    try:
        stack = LayoverStack(app, settings)
    except (InvalidProps, VariablesTooLarge) as error:
        sys.exit(f"layover: {error}")
    Tags.of(stack).add("layover:stage", stack.settings.stage)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    return app


def read_settings(app: App) -> Settings:
    """Return the settings. Settings that are wrong or do not fit the region end the process with a
    message."""
    try:
        settings = Settings.from_context(app.node.get_all_context(), IN_CODE)
    except ValueError as error:
        sys.exit(f"layover: {error}")
    # The CDK's command line knows the region of the credentials.
    region = os.environ.get("CDK_DEFAULT_REGION")
    wrong = unfit(region, settings) or _untrusted(settings, region)
    if wrong is not None:
        sys.exit(f"layover: {wrong}")
    if (caution := streaming_caution(region)) is not None:
        sys.stderr.write(f"layover: {caution}\n")
    return settings


def _untrusted(settings: Settings, region: str | None) -> str | None:
    """Return why functions with this layer would not trust the database in the region; None: they would, or
    the region is unknown. `layover.desk.cdk.constructs.layer` refuses a layer without any certificates."""
    bundle = Path(settings.layer) / "certificates" / "rds.pem"
    if region is None or not bundle.is_file():
        return None
    wrong = certificates.problem(bundle.read_text(errors="replace"), datetime.now(UTC), region)
    return wrong and f"{bundle} {wrong}: delete build/rds-global-bundle.pem, and run make deploy"


if __name__ == "__main__":
    main()
