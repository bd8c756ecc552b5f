"""Checks before a deployment that the stack is this project's, and that a stage can adopt the resources that
an earlier stack left."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from layover.adapters.journal.items.schema import TABLE, TTL_ATTRIBUTE
from layover.desk.cdk.deployed import MACHINE, PROJECT, Place
from layover.desk.cdk.settings import Settings
from layover.desk.shipped import order, release

Client = Callable[..., Any]
"""A function like a boto3 Session's `client`."""
NEVER_WHOLE = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "REVIEW_IN_PROGRESS", "DELETE_COMPLETE")
"""States of a stack that was never complete: the CDK deletes it and begins again."""


WHOLE_STACK = Place()


def is_new(settings: Settings, client: Client, place: Place | None = WHOLE_STACK) -> bool:
    """Return whether the next deployment is the stage's first. `place`: None if no stack has the system.
    Raises botocore's errors."""
    return place is None or _stack(place.stack or settings.prefix, client) is None


def of_another(
    settings: Settings,
    client: Client,
    place: Place | None = WHOLE_STACK,
    *,
    takes_over: bool = False,
) -> str | None:
    """Return why the stack is, or may be, of another project, with what to do; None: it is this one's, or not
    there. `place`: None if no stack has the system. `takes_over`: whoever asks knows that a stack that does
    not tell its project is theirs. Raises botocore's errors."""
    name = settings.prefix if place is None else place.stack or settings.prefix
    template = _stack(name, client)
    if template is None:
        return None
    outputs = template.get("Outputs", {})
    id = _system_in(outputs) if place is None else place.id
    if id is None:
        return None if takes_over else _FOREIGN.format(name=name)
    theirs = str(outputs.get(f"{id}{PROJECT}", {}).get("Value", ""))
    if theirs == settings.project:
        return None
    if theirs:
        this = f"this one is {settings.project!r}" if settings.project else "this one has none"
        return _ANOTHER.format(name=name, theirs=theirs, this=this)
    return None if takes_over else _UNTOLD.format(name=name)


_ELSE = "give this project another `name` in layover.toml, which makes another system"
_FOREIGN = (
    "the stack {name} has no system of Layover, so it is another application's, which would be replaced: "
    f"{_ELSE}. If the system is to be a part of that stack, add --take-over"
)
_ANOTHER = (
    "the stack {name} was made by another project, whose id is {theirs!r}, and {this}: "
    f'{_ELSE}. If both are the same project, write id = "{{theirs}}" at the top of layover.toml'
)
_UNTOLD = (
    "the stack {name} does not tell which project made it, so it may be another one's: "
    f"{_ELSE}. If it is this project's, add --take-over, once: from then on it tells"
)


def _system_in(outputs: Mapping[str, Any]) -> str | None:
    """Return the id of the system in a stack that was never complete, and so has no values of its outputs;
    None if it has no system."""
    return next((name.removesuffix(MACHINE) for name in outputs if name.endswith(MACHINE)), None)


def problems(
    settings: Settings, client: Client, place: Place | None = WHOLE_STACK
) -> Iterator[str]:
    """Yield the problems that would lose data or make the deployment fail, each with what to do. `place`:
    None if no stack has the system, so that nothing of a stack is its own. Raises botocore's errors."""
    if settings.adopt_table is not None:
        yield from _table(settings.adopt_table, client("dynamodb"))
    if settings.adopt_bucket is not None:
        yield from _bucket(settings.adopt_bucket, client("s3"))
    if settings.adopt_user_pool is not None:
        yield from _user_pool(settings.adopt_user_pool, client("cognito-idp"))
    if place is None:
        return
    if (template := _stack(place.stack or settings.prefix, client)) is not None:
        yield from _newer(template, place)
        yield from _left_behind(settings, template, place)


def _table(name: str, dynamodb: Any) -> Iterator[str]:
    try:
        table = dynamodb.describe_table(TableName=name)["Table"]
    except dynamodb.exceptions.ResourceNotFoundException:
        yield f"adopt_table: there is no table {name} in this region"
        return
    if table["KeySchema"] != TABLE["KeySchema"]:
        yield f"adopt_table: {name} is not a journal: its key is another one"
    there = {each["IndexName"] for each in table.get("GlobalSecondaryIndexes", ())}
    expected_indexes = {each["IndexName"] for each in TABLE["GlobalSecondaryIndexes"]}
    if missing := sorted(expected_indexes - there):
        yield f"adopt_table: {name} has no index {', '.join(missing)}"
    for index in _changed_indexes(table.get("GlobalSecondaryIndexes", ())):
        yield (
            f"adopt_table: the index {index} of {name} is another one than this release reads, and DynamoDB "
            "changes no index in place: export the table into a new one, or adopt it with the release that "
            "made it"
        )
    ttl = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    if ttl.get("AttributeName") != TTL_ATTRIBUTE:
        yield (
            f"adopt_table: nothing in {name} expires (a restored table has lost that): aws dynamodb "
            f"update-time-to-live --table-name {name} "
            f"--time-to-live-specification Enabled=true,AttributeName={TTL_ATTRIBUTE}"
        )


def _bucket(name: str, s3: Any) -> Iterator[str]:
    from botocore.exceptions import ClientError

    try:
        s3.head_bucket(Bucket=name)
    except ClientError:
        yield f"adopt_bucket: {name} is not there, or not yours"


def _user_pool(pool: str, cognito: Any) -> Iterator[str]:
    try:
        cognito.describe_user_pool(UserPoolId=pool)
    except cognito.exceptions.ResourceNotFoundException:
        yield f"adopt_user_pool: there is no user pool {pool} in this region"


def _stack(name: str, client: Client) -> dict[str, Any] | None:
    """Return the deployed template; None if there is none, or its stack was never complete."""
    from botocore.exceptions import ClientError

    cloudformation = client("cloudformation")
    try:
        (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationError":
            raise
        return None
    if stack["StackStatus"] in NEVER_WHOLE:
        return None
    body = cloudformation.get_template(StackName=name)["TemplateBody"]
    # JSON comes parsed, anything else as text.
    template: dict[str, Any] = json.loads(body) if isinstance(body, str) else body
    return template


def _newer(template: dict[str, Any], place: Place) -> Iterator[str]:
    """Yield why this release would not work on what is deployed."""
    deployed = template.get("Outputs", {}).get(f"{place.id}Release", {}).get("Value")
    if isinstance(deployed, str) and order(deployed) > order(release()):
        yield (
            f"release {deployed} is deployed, and this is {release()}: an older release does not know the "
            "newer one's schema and records, and runs would wait. Install that one or a newer one; "
            "to go back to what was deployed before, move the aliases (docs/deploy/upgrade.md#back)"
        )


def _left_behind(settings: Settings, template: dict[str, Any], place: Place) -> Iterator[str]:
    """Yield the resources that the stage would lose although no setting asks for that."""
    kinds = {
        each["Type"]: each.get("Properties", {})
        for name, each in template["Resources"].items()
        if name.startswith(place.id)
    }
    snapshot = kinds.get("AWS::RDS::DBCluster", {}).get("SnapshotIdentifier")
    if snapshot != settings.restore_snapshot:
        now = f"restore_snapshot={snapshot}" if snapshot else "no restore_snapshot"
        yield (
            f"the database of {settings.prefix} was made with {now}: anything else would replace it. "
            "Keep it so, or restore into another stage"
        )
    yield from _another_key(settings, kinds.get("AWS::RDS::DBCluster"))
    yield from _indexes_out_of_reach(settings, kinds.get("AWS::DynamoDB::Table", {}))
    outputs = template.get("Outputs", {})
    for output, setting in (("TableName", "adopt_table"), ("BucketName", "adopt_bucket")):
        # In the template, the output of the stack's own resource is a reference; of an adopted one, the name.
        name = outputs.get(f"{place.id}{output}", {}).get("Value")
        if isinstance(name, str) and getattr(settings, setting) is None:
            yield f"{settings.prefix} uses {name}: without {setting}={name} it would begin with an empty one"
    own_users = "AWS::Cognito::UserPool" in kinds or settings.issuer is not None
    if "AWS::Cognito::UserPoolClient" in kinds and not own_users and not settings.adopt_user_pool:
        yield f"{settings.prefix} has adopted its user pool: without adopt_user_pool nobody could sign in"


def _another_key(settings: Settings, cluster: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield why the cluster would be replaced by an empty one, as CloudFormation does where its key changes.
    A restored one keeps the key of its snapshot, whatever the settings say."""
    if cluster is None or settings.restore_snapshot is not None:
        return
    had_key = "KmsKeyId" in cluster
    if had_key != settings.own_key:
        own = "own_key=true" if had_key else "own_key=false"
        yield (
            f"the database of {settings.prefix} was made with {own}: anything else would replace it by an "
            f"empty one. Write {own}, which wins over the size {settings.size}, or restore a snapshot into "
            "another stage"
        )


def _indexes_out_of_reach(settings: Settings, table: dict[str, Any]) -> Iterator[str]:
    """Yield why CloudFormation could not bring the indexes of the deployed table to those of this release."""
    deployed = table.get("GlobalSecondaryIndexes", [])
    if not deployed:
        return
    if changed := _changed_indexes(deployed):
        yield (
            f"the index {', '.join(changed)} of the table of {settings.prefix} would change, and DynamoDB "
            "changes no index in place: this release has to give the new one another name"
        )
    names = {each["IndexName"] for each in deployed}
    moves = names ^ {each["IndexName"] for each in TABLE["GlobalSecondaryIndexes"]}
    if len(moves) > 1:
        yield (
            f"the table of {settings.prefix} would gain or lose the indexes {', '.join(sorted(moves))}: "
            "CloudFormation makes or removes one in an update. Deploy the releases in between, one after "
            "another"
        )


def _changed_indexes(deployed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the indexes that have another key or other attributes than in this release."""
    expected = {each["IndexName"]: _shape(each) for each in TABLE["GlobalSecondaryIndexes"]}
    return [
        each["IndexName"]
        for each in deployed
        if expected.get(each["IndexName"], _shape(each)) != _shape(each)
    ]


def _shape(index: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the parts of an index that never change; the order of the attributes says nothing."""
    projection = index["Projection"]
    keys = [(key["AttributeName"], key["KeyType"]) for key in index["KeySchema"]]
    attributes = sorted(projection.get("NonKeyAttributes", ()))
    return (keys, projection["ProjectionType"], attributes)
