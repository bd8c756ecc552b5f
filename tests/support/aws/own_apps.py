"""Apps that use the construct: `python -m support.aws.own_apps FOLDER BUILT` makes a folder of each.

`ten_lines` is the first example of docs/reference/construct.md as it stands there. `everything` gives every
prop. Both have none of the CDK's feature flags, as an app without a cdk.json."""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from aws_cdk import App, RemovalPolicy, Stack, Validations
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_rds as rds
from aws_cdk import aws_route53 as route53
from cdk_nag import AwsSolutionsChecks, ServerlessChecks
from constructs import IConstruct

from layover.cdk import Database, Domain, Layover
from layover.desk.cdk.constructs.acknowledge import acknowledge
from support.aws.forms import CHANNEL_SECRETS, CHANNELS
from support.aws.templates import BANK_KEY
from support.pages import Page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "construct.md"
SYNTH = "app.synth()"
THEIRS: dict[str, tuple[str, ...]] = {
    "ten_lines": ("network",),
    "approvals": ("shop/Finance", "shop/Approvals"),
    "everything": ("there",),
    "connected": (),
}
"""Paths of what an app has next to the construct."""
CONNECTIONS = """
from layover import Connection, secret
HOST = "https://service.example"
BANK = secret("BANK_KEY")
github = Connection(
    "github", authorize_url=HOST, token_url=HOST, client_id="i", client_secret=secret("GITHUB_SECRET")
)
bank = Connection("bank", authorize_url=HOST, token_url=HOST, client_id="i", client_secret=BANK)
crm = Connection("crm", token_url=HOST, client_id="i", client_secret=secret("SHOP_KEY"))
"""
"""Agents of the app `connected`: two accounts of users, and one of the deployment."""
RULES_OF_THEIRS = "VPC7 RDS2 RDS6 RDS10 RDS11 SMG4 COG1 COG2 COG3 COG8 DDB3 SNS3"
"""Rules of cdk-nag that it may break."""


def main(folder: Path, built: Path) -> None:
    """Synthesize all of them."""
    project = folder / "project"
    for name in ("agents", "shop_rules"):
        (project / name).mkdir(parents=True, exist_ok=True)
        (project / name / "__init__.py").write_text(f"RULE = Approval(by=['of-{name}'])")
    (project / "clerks").mkdir(exist_ok=True)
    (project / "clerks" / "__init__.py").write_text(CONNECTIONS)
    os.chdir(project)
    for name, app_of in APPS.items():
        # The CDK's command line gives both to an app, by variables of a process.
        app = app_of(outdir=str(folder / name), context={"@layover/built": str(built)})
        # The rules are for the construct: what is around it is the deployer's.
        for path in THEIRS[name]:
            node: IConstruct = app
            for part in path.split("/"):
                node = node.node.find_child(part)
            rules = (
                *(f"AwsSolutions-{rule}" for rule in RULES_OF_THEIRS.split()),
                "Serverless-EventBusDLQ",
                "Serverless-SNSRedrivePolicy",
            )
            acknowledge(node, *((rule, "It is the deployer's.") for rule in rules))
        Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
        app.synth()


def example(number: int, **props: Any) -> App:
    """The app of the page's example, before it is synthesized."""
    code = Page(PAGE).python[number].source
    assert code.rstrip().endswith(SYNTH)
    names: dict[str, object] = {"props": props}
    exec(code.replace(SYNTH, "").replace("App()", "App(**props)"), names)
    app = names["app"]
    assert isinstance(app, App)
    return app


def everything(**props: Any) -> App:
    """What is there already: a VPC, a cluster, a user pool in one stack, and tools that may do something."""
    app = App(**props)
    there = Stack(app, "there")
    vpc = ec2.Vpc(there, "Vpc", max_azs=2, nat_gateways=1)
    cluster = rds.DatabaseCluster(
        there,
        "Cluster",
        engine=rds.DatabaseClusterEngine.aurora_postgres(
            version=rds.AuroraPostgresEngineVersion.VER_18_4
        ),
        writer=rds.ClusterInstance.serverless_v2("Writer"),
        credentials=rds.Credentials.from_generated_secret("shop_owner"),
        iam_authentication=True,
        vpc=vpc,
        removal_policy=RemovalPolicy.RETAIN,
    )
    pool = cognito.UserPool(there, "People")
    pool.add_domain("Pages", cognito_domain=cognito.CognitoDomainOptions(domain_prefix="shop"))
    orders = dynamodb.TableV2(
        there,
        "Orders",
        partition_key=dynamodb.Attribute(name="id", type=dynamodb.AttributeType.STRING),
    )
    stack = Stack(app, "shop")
    name, zone = "agents.example.com", "Z0123456789ABCDEFGHIJ"
    certificate = acm.Certificate.from_certificate_arn(
        stack, "Certificate", "arn:aws:acm:eu-west-1:123456789012:certificate/0a"
    )
    refund = iam.PolicyStatement(
        actions=["ses:SendEmail"],
        resources=["arn:aws:ses:eu-west-1:123456789012:identity/shop.example"],
        conditions={"StringEquals": {"ses:FromAddress": "shop@shop.example"}},
    )
    agents = Layover(
        stack,
        "Agents",
        agents="agents",
        packages=["shop_rules"],
        settings={
            "name": "shop",
            "stage": "prod",
            "tool_env": {"SHOP": "main"},
            "tool_secrets": {"SHOP_KEY": "/shop/key", "BANK_KEY": BANK_KEY},
        },
        vpc=vpc,
        database=Database(cluster, owner="shop_owner", name="agents"),
        user_pool=pool,
        tool_policies={
            "refund": refund,
            "ship": [
                {
                    "actions": ["sqs:SendMessage"],
                    "resources": ["arn:aws:sqs:eu-west-1:123456789012:shop"],
                }
            ],
        },
        domain=Domain(
            name,
            certificate,
            route53.HostedZone.from_hosted_zone_attributes(
                stack, "Zone", hosted_zone_id=zone, zone_name="example.com"
            ),
        ),
    )
    for function in agents.tool_functions:
        orders.grant_read_data(function)
    return app


def connected(**props: Any) -> App:
    """Agents that work with accounts of their users, below a host name, and tell people what waits."""
    app = App(**props)
    stack = Stack(app, "shop")
    certificate = acm.Certificate.from_certificate_arn(
        stack, "Certificate", "arn:aws:acm:eu-west-1:123456789012:certificate/0a"
    )
    secrets = {"SHOP_KEY": "/shop/key", "GITHUB_SECRET": "/shop/github", "BANK_KEY": BANK_KEY}
    Layover(
        stack,
        "Agents",
        agents="clerks",
        settings={
            "name": "shop",
            "stage": "prod",
            "tool_secrets": secrets,
            "channels": CHANNELS,
            "channel_secrets": CHANNEL_SECRETS,
        },
        domain=Domain("agents.example.com", certificate),
    )
    return app


APPS: dict[str, Callable[..., App]] = {
    "ten_lines": partial(example, 0),
    "approvals": partial(example, 1),
    "everything": everything,
    "connected": connected,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
