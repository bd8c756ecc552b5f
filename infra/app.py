"""The CDK app: `python -m infra.app`, as cdk.json has it. Needs neither network nor credentials."""

from aws_cdk import App, Tags, Validations
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from infra.settings import Settings
from infra.stack import LayoverStack


def main() -> None:
    """One stack of the stage that the context names; every finding of the rules is an error."""
    app = App(analytics_reporting=False)
    stack = LayoverStack(app, Settings.from_context(app.node.try_get_context))
    Tags.of(stack).add("layover:stage", stack.settings.stage)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    app.synth()


if __name__ == "__main__":
    main()
