"""A function's calls as statements of its role, on this stack's own resources."""

from collections.abc import Iterable
from dataclasses import dataclass

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

from layover.desk.cdk.calls import ENCRYPTS, Calls
from layover.desk.cdk.rollback import ALIAS

OWNERS = "u/*"
"""All keys of all users (`layover.keys.Keys.blob`); nothing else is in the bucket."""


@dataclass(frozen=True)
class Resources:
    """ARNs of the resources of calls; strings may be CloudFormation tokens."""

    table: str
    bucket: str
    machine: str
    executions: str
    bus: str
    compact: str
    sockets: str
    connections: str
    key: str | None = None
    """The key of KMS that encrypts the table and the bucket; None: keys of AWS's do."""


def service(name: str) -> iam.IPrincipal:
    """Return a service of AWS as a principal that acts for this account. Without the condition another
    account could have the service use our role (the confused deputy)."""
    return iam.ServicePrincipal(
        name, conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
    )


def invoked(function: str) -> list[str]:
    """Return the ARNs by which a function is invoked: the alias's, and its own. Executions live for up to a
    year in a definition, and invocations for a quarter of an hour: those from before there were aliases
    invoke the function itself."""
    return [f"{function}:{ALIAS}", function]


def statements(calls: Calls, on: Resources) -> list[iam.PolicyStatement]:
    """Return the calls as policy statements."""
    objects = f"{on.bucket}/{OWNERS}"
    rules: list[tuple[str, Iterable[str], list[str]]] = [
        ("dynamodb", calls.journal, [on.table]),
        ("dynamodb", ("Query",) if calls.index else (), [f"{on.table}/index/*"]),
        ("s3", calls.blobs, [objects]),
        ("states", calls.machine, [on.machine]),
        ("states", calls.executions, [on.executions]),
        ("events", ("PutEvents",) if calls.publishes else (), [on.bus]),
        ("lambda", ("InvokeFunction",) if calls.condenses else (), invoked(on.compact)),
        ("lambda", ("InvokeFunction",) if calls.pushes else (), invoked(on.sockets)),
        ("execute-api", ("ManageConnections",) if calls.pushes else (), [on.connections]),
    ]
    allowed = [
        iam.PolicyStatement(actions=[f"{service}:{a}" for a in actions], resources=resources)
        for service, actions, resources in rules
        if actions
    ]
    if calls.blobs:
        allowed.append(_lists_owners(on.bucket))
    if on.key is not None and (calls.journal or calls.blobs):
        allowed.append(_encrypts(on.key))
    return allowed


def _encrypts(key: str) -> iam.PolicyStatement:
    """Allow what DynamoDB and S3 do with the key in the name of a caller, and no use of it past them."""
    services = [f"{each}.{Aws.REGION}.amazonaws.com" for each in ("dynamodb", "s3")]
    return iam.PolicyStatement(
        actions=[f"kms:{action}" for action in ENCRYPTS],
        resources=[key],
        conditions={"StringEquals": {"kms:ViaService": services}},
    )


def _lists_owners(bucket: str) -> iam.PolicyStatement:
    """Allow listing what owners have, as every list of ours asks for, and nothing else of the bucket.

    Without ListBucket, S3 answers 403 for a missing object, which then looks forbidden. It takes the
    object's key for the prefix there, so the condition keeps the 404."""
    return iam.PolicyStatement(
        actions=["s3:ListBucket"],
        resources=[bucket],
        conditions={"StringLike": {"s3:prefix": OWNERS}},
    )
