"""Alarms on problems that need a person; a dashboard and a budget if the settings have them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from aws_cdk import Aws, Duration
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from layover.desk.cdk.constructs.acknowledge import acknowledge
from layover.desk.cdk.constructs.time import duration
from layover.desk.cdk.settings import Settings
from layover.values.metrics import END_LINE, NAMESPACE, PAUSE_LINE, Metric

FIVE_MINUTES = Duration.minutes(5)
ABOVE = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
QUIET = cloudwatch.TreatMissingData.NOT_BREACHING
WATCHED_ELSEWHERE = ("migrate",)
"""CloudFormation reports their failures."""
BUSIEST = ("api", "turn")
"""Functions that first show a lack of concurrency: `api` has its own share, the others have the rest."""
UNFORESEEN = "unforeseen"
"""Metric that counts the `internal-error` responses of `api` and `sockets`, from their logs."""
FAILED_SHARE = "failed_share"
"""Metric by agent: 1 for a run that failed and 0 for any other, from the line of its end. Its average is the
share of failed runs."""
PROVIDER_WAIT = "provider_wait"
"""Metric of the seconds for which a run will have waited for its provider, from the line of each pause."""
LONG_WAIT = Duration.minutes(5)
"""The wait for a provider that is an alarm: most faults of a provider are over by then."""
BETWEEN_PAUSES = Duration.minutes(10)
"""Longer than any pause (`engine.models.away`), so that one run that waits keeps the alarm red."""
ENDING = ("turn", "settle", "sweep")
"""Functions that end runs other than by a cancel."""
MUCH = 0.2
"""The share of an agent's runs above which failures are no accidents."""
PERIODS = {"FailedShare": 3}
"""Periods in a row that are an alarm, where that is not one: a run that fails by itself is all runs of its
five minutes."""
COMPACTION = (Metric.COMPACTION_WAITS, Metric.COMPACTION_FAILED, Metric.RECALL_SCOPE_CUT)


@dataclass(frozen=True)
class MonitoredResources:
    """The resources that the alarms and the dashboard watch."""

    functions: Mapping[str, lambda_.Function]
    machine: sfn.StateMachine
    table: dynamodb.ITable
    api: gateway.HttpApi
    untold: Mapping[str, cloudwatch.Metric] | None = None
    """Events that nobody could be told of; None: there are no channels."""


class Observability(Construct):
    """Alarms send mail to `alarms_email`; without an address they are only red in the console."""

    def __init__(
        self, scope: Construct, id: str, settings: Settings, resources: MonitoredResources
    ) -> None:
        super().__init__(scope, id)
        self._settings = settings
        self._resources = resources
        email = settings.alarms_email if settings.alarms else None
        self._topic = self._make_topic(email) if email else None
        self.alarms: dict[str, cloudwatch.Alarm] = {}
        """Alarms by their names, such as `Errors`."""
        self.alarm_metrics = 0
        """Metrics of all alarms: AWS bills each metric of a sum."""
        self._count_unforeseen()
        self._count_failed()
        self._measure_provider_waits()
        if settings.alarms:
            self._alarms()
        if settings.dashboard:
            self._dashboard()
        if settings.budget_usd is not None:
            self._budget(settings.budget_usd)

    def _make_topic(self, email: str) -> sns.Topic:
        # Not encrypted with SNS's own key: CloudWatch may not use that one, and no mail would come.
        topic = sns.Topic(self, "Alarms", enforce_ssl=True)
        # `enforce_ssl` gives the topic a policy, which replaces the default one that lets CloudWatch publish.
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            )
        )
        topic.add_subscription(subscriptions.EmailSubscription(email))
        acknowledge(topic, ("Serverless-SNSRedrivePolicy", "SNS keeps trying a mailbox by itself."))
        return topic

    def _alarms(self) -> None:
        settings = self._settings
        self._alarm("ExecutionsFailed", self._failed(), 0, "An execution failed")
        self._alarm("FailedShare", self._worst_share(), MUCH, "Many runs of an agent fail")
        long = LONG_WAIT.to_seconds()
        self._alarm("ProviderAway", self._provider_wait(), long, "A model's provider is away")
        self._alarm("Errors", self._errors(), settings.alarm_errors, "Functions fail")
        self._alarm("Throttles", self._throttles(), 0, "The account has too little concurrency")
        # Not HTTP 5xx: for a waking database or a stopped system 503 is the ordinary response.
        self._alarm("ApiErrors", self._unforeseen(), 0, "Requests fail for an unforeseen reason")
        self._alarm("TableThrottles", self._table_throttles(), 0, "DynamoDB refuses requests")
        age = settings.approval_alarm.total_seconds()
        self._alarm("ApprovalAge", self._approval_age(), age, "A call has waited long for a person")
        if self._resources.untold is not None:
            untold = _sum_of("Events that nobody was told of", self._resources.untold)
            self._alarm("Untold", untold, 0, "People were not told of a call that waits for them")
        self._alarm_without_sweeps()

    def _alarm(self, name: str, metric: cloudwatch.IMetric, above: float, what: str) -> None:
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_description=f"{self._settings.prefix}: {what}",
            metric=metric,
            threshold=above,
            comparison_operator=ABOVE,
            evaluation_periods=PERIODS.get(name, 1),
            treat_missing_data=QUIET,
        )
        self._keep(name, alarm, metric)

    def _alarm_without_sweeps(self) -> None:
        """Watch the sweeper: without it a run whose execution died stays where it is.

        Missing data is not a breach here: a new alarm has no data yet, and would be red until the first sweep
        of a new stack. So silence leads to INSUFFICIENT_DATA, which sends mail as well."""
        sweeps = self._resources.functions["sweep"].metric_invocations(period=FIVE_MINUTES)
        alarm = cloudwatch.Alarm(
            self,
            "NoSweeps",
            alarm_description=f"{self._settings.prefix}: the sweeper does not run",
            metric=sweeps,
            threshold=1,
            comparison_operator=BELOW,
            evaluation_periods=1,
            treat_missing_data=cloudwatch.TreatMissingData.MISSING,
        )
        self._keep("NoSweeps", alarm, sweeps)
        if self._topic is not None:
            alarm.add_insufficient_data_action(actions.SnsAction(self._topic))

    def _keep(self, name: str, alarm: cloudwatch.Alarm, metric: cloudwatch.IMetric) -> None:
        self.alarms[name] = alarm
        if isinstance(metric, cloudwatch.MathExpression):
            # A query names none, and is billed for what it finds: at least one.
            self.alarm_metrics += max(1, len(metric.using_metrics))
        else:
            self.alarm_metrics += 1
        if self._topic is not None:
            alarm.add_alarm_action(actions.SnsAction(self._topic))

    @property
    def _name(self) -> str:
        """Return the name of the dashboard and the budget. Both belong to the account in all its regions, so
        the region is part of it."""
        return f"{self._settings.prefix}-{Aws.REGION}"

    # Metrics

    @property
    def metrics(self) -> dict[str, cloudwatch.IMetric]:
        """Return what the alarms watch, for dashboards and alarms of the program that makes the stack."""
        return {
            "executions_failed": self._failed(),
            "failed_share": self._worst_share(),
            "provider_wait": self._provider_wait(),
            "errors": self._errors(),
            "throttles": self._throttles(),
            "unforeseen_errors": self._unforeseen(),
            "table_throttles": self._table_throttles(),
            "approval_age": self._approval_age(),
            "sweeps": self._resources.functions["sweep"].metric_invocations(period=FIVE_MINUTES),
        }

    def _failed(self) -> cloudwatch.IMetric:
        # An execution has no time-out. That of a run which failed fails.
        using = {"failed": self._resources.machine.metric_failed(period=FIVE_MINUTES)}
        return _sum_of("Executions that failed", using)

    def _worst_share(self) -> cloudwatch.IMetric:
        """Return the share of failed runs of the agent that has the largest one. Agents come and go, so the
        query finds their metrics."""
        service = f"service = '{self._settings.prefix}'"
        schema = f'SCHEMA("{NAMESPACE}", agent, service)'
        query = f'SELECT AVG("{FAILED_SHARE}") FROM {schema} WHERE {service} GROUP BY agent'
        return cloudwatch.MathExpression(
            label="Largest share of failed runs",
            expression=f"{query} ORDER BY AVG() DESC LIMIT 1",
            period=FIVE_MINUTES,
            using_metrics={},
        )

    def _shares(self) -> cloudwatch.IMetric:
        terms = f'MetricName="{FAILED_SHARE}" service="{self._settings.prefix}"'
        search = f"{{{NAMESPACE},agent,service}} {terms}"
        return cloudwatch.MathExpression(
            expression=f"SEARCH('{search}', 'Average', 300)",
            label="",
            period=FIVE_MINUTES,
            using_metrics={},
        )

    def _count_failed(self) -> None:
        """Make a metric of the lines `END_LINE`, so that a run pays for no other."""
        ended = logs.FilterPattern.string_value("$.message", "=", END_LINE)
        for name in ENDING:
            for id, comparison, value in (("Failed", "=", "1"), ("Other", "!=", "0")):
                status = logs.FilterPattern.string_value("$.status", comparison, "failed")
                logs.MetricFilter(
                    self,
                    f"{id}RunsOf{name.capitalize()}",
                    log_group=self._resources.functions[name].log_group,
                    filter_pattern=logs.FilterPattern.all(ended, status),
                    metric_namespace=NAMESPACE,
                    metric_name=FAILED_SHARE,
                    metric_value=value,
                    dimensions={"service": "$.service", "agent": "$.agent"},
                )

    def _provider_wait(self) -> cloudwatch.IMetric:
        return self._own_metric(PROVIDER_WAIT, "Maximum", BETWEEN_PAUSES)

    def _measure_provider_waits(self) -> None:
        logs.MetricFilter(
            self,
            "ProviderWaits",
            log_group=self._resources.functions["turn"].log_group,
            filter_pattern=logs.FilterPattern.string_value("$.message", "=", PAUSE_LINE),
            metric_namespace=NAMESPACE,
            metric_name=PROVIDER_WAIT,
            metric_value="$.wait_s",
            dimensions={"service": "$.service"},
        )

    def _errors(self) -> cloudwatch.IMetric:
        return self._sum("Errors", self._resources.functions.keys() - set(WATCHED_ELSEWHERE))

    def _throttles(self) -> cloudwatch.IMetric:
        return self._sum("Throttles", BUSIEST)

    def _sum(self, name: str, of: Collection[str]) -> cloudwatch.IMetric:
        using = {
            f"{name.lower()}_{each}": self._resources.functions[each].metric(
                name, period=FIVE_MINUTES, statistic="Sum"
            )
            for each in sorted(of)
        }
        return _sum_of(name, using)

    def _unforeseen(self) -> cloudwatch.IMetric:
        return self._own_metric(UNFORESEEN, "Sum", FIVE_MINUTES)

    def _count_unforeseen(self) -> None:
        """Count the log lines of level ERROR: both functions write one with each `internal-error`."""
        for name in ("api", "sockets"):
            logs.MetricFilter(
                self,
                f"Unforeseen{name.capitalize()}",
                log_group=self._resources.functions[name].log_group,
                filter_pattern=logs.FilterPattern.string_value("$.level", "=", "ERROR"),
                metric_namespace=NAMESPACE,
                metric_name=UNFORESEEN,
                metric_value="1",
                dimensions={"service": "$.service"},
            )

    def _table_throttles(self) -> cloudwatch.IMetric:
        """Return the table's own throttles. The indexes grow as the table does, and their four metrics would
        cost extra."""
        names = {"reads": "ReadThrottleEvents", "writes": "WriteThrottleEvents"}
        using = {
            key: self._resources.table.metric(name, period=FIVE_MINUTES, statistic="Sum")
            for key, name in names.items()
        }
        return _sum_of("Throttled requests", using)

    def _approval_age(self) -> cloudwatch.IMetric:
        # The sweeper looks at a suspended run only about once an hour, and that look is the metric's source.
        return self._own_metric(Metric.APPROVAL_AGE, "Maximum", Duration.hours(2))

    def _own_metric(self, name: str, statistic: str, period: Duration) -> cloudwatch.Metric:
        """Return one of Layover's own metrics, over all its dimensions."""
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=str(name),
            dimensions_map={"service": self._settings.prefix},
            statistic=statistic,
            period=period,
        )

    # Dashboard

    def _dashboard(self) -> None:
        resources = self._resources
        board = cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=self._name,
            default_interval=duration(self._settings.dashboard_shows),
        )
        machine, table, api = resources.machine, resources.table, resources.api
        board.add_widgets(
            _graph("Runs", machine.metric_started(), machine.metric_succeeded(), self._failed()),
            _graph(
                "Requests", api.metric_count(), api.metric_client_error(), api.metric_server_error()
            ),
            _graph("Oldest approval (s)", self._approval_age()),
            _graph("Share of failed runs by agent", self._shares()),
        )
        each = sorted(resources.functions.items())
        board.add_widgets(
            _graph("Duration (p90)", *(f.metric_duration(statistic="p90") for _, f in each)),
            _graph("Errors and throttles", self._errors(), self._throttles()),
            _graph(
                "Concurrency",
                *(f.metric("ConcurrentExecutions", statistic="Maximum") for _, f in each),
            ),
        )
        board.add_widgets(
            _graph("Latency (p90)", api.metric_latency(statistic="p90")),
            _graph(
                "Table",
                table.metric_consumed_read_capacity_units(),
                table.metric_consumed_write_capacity_units(),
                self._table_throttles(),
            ),
            _graph("Memory", *(self._own_metric(m, "Sum", FIVE_MINUTES) for m in COMPACTION)),
        )

    # Money

    def _budget(self, usd: float) -> None:
        """Set a budget for the whole account. A budget for a stage would need the stage's tag, which somebody
        has to activate for billing first."""
        email = self._settings.alarms_email
        subscriber = budgets.CfnBudget.SubscriberProperty(
            subscription_type="EMAIL", address=email or ""
        )
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_name=self._name,
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=usd, unit="USD"),
            ),
            notifications_with_subscribers=[
                _notification("ACTUAL", 80, subscriber),
                _notification("FORECASTED", 100, subscriber),
            ],
        )


def _sum_of(label: str, using: Mapping[str, cloudwatch.Metric]) -> cloudwatch.MathExpression:
    """Return the sum of metrics, in which one without data counts as zero."""
    return cloudwatch.MathExpression(
        label=label,
        expression=" + ".join(f"FILL({name}, 0)" for name in using),
        period=FIVE_MINUTES,
        using_metrics=dict(using),
    )


def _graph(title: str, *metrics: cloudwatch.IMetric) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=8, height=6)


def _notification(
    kind: str, percent: int, to: budgets.CfnBudget.SubscriberProperty
) -> budgets.CfnBudget.NotificationWithSubscribersProperty:
    return budgets.CfnBudget.NotificationWithSubscribersProperty(
        notification=budgets.CfnBudget.NotificationProperty(
            comparison_operator="GREATER_THAN",
            notification_type=kind,
            threshold=percent,
            threshold_type="PERCENTAGE",
        ),
        subscribers=[to],
    )
