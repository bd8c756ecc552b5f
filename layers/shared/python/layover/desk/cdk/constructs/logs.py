"""Log groups that end with the stack."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct

from layover.desk.cdk.settings import Settings

_DAYS = {
    1: logs.RetentionDays.ONE_DAY,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    90: logs.RetentionDays.THREE_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
}
"""Those of CloudWatch's retention periods that the settings offer."""


def log_group(scope: Construct, id: str, settings: Settings, name: str) -> logs.LogGroup:
    """Return a log group: encrypted by CloudWatch, kept for `settings.log_retention`, deleted with the
    stack."""
    return logs.LogGroup(
        scope,
        id,
        log_group_name=name,
        retention=_DAYS[settings.log_retention.days],
        removal_policy=RemovalPolicy.DESTROY,
    )
