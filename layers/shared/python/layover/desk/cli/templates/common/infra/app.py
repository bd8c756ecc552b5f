"""The stack on AWS. Add resources of your own next to the agents."""

from aws_cdk import App, Stack
from layover.cdk import Layover, Settings

app = App()
# [stages.NAME] of layover.toml, and what the command line adds.
settings = Settings.from_context(app.node.get_all_context())
stack = Stack(app, settings.prefix)
Layover(stack, "Agents", agents="agents", settings=settings)
app.synth()
