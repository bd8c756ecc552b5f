"""Units of time, from Python's to the CDK's."""

from datetime import timedelta

from aws_cdk import Duration


def duration(time: timedelta) -> Duration:
    """Return the time in whole seconds."""
    return Duration.seconds(int(time.total_seconds()))
