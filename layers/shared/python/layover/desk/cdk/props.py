"""Props of the construct, checked before anything is made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from layover.desk.cdk.settings import HOST, MAX_HOST, Settings, Statement
from layover.desk.cdk.sizes import Nat
from layover.errors import unknown_name

if TYPE_CHECKING:
    from aws_cdk import aws_certificatemanager as acm
    from aws_cdk import aws_ec2 as ec2
    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_rds as rds
    from aws_cdk import aws_route53 as route53
    from aws_cdk import aws_secretsmanager as secretsmanager

_KINDS: Mapping[type, str] = {
    str: "a text",
    dict: "a mapping",
    list: "a list",
    tuple: "a list",
    type(None): "None",
}


class InvalidProps(ValueError):
    """A prop of the construct that makes no sense. The author of the stack must change it."""


@dataclass(frozen=True)
class Database:
    """An Aurora PostgreSQL cluster of your own, in the `vpc` that the construct is given.

    Attributes:
        cluster: The cluster, with IAM authentication switched on. Its security group gets a rule that lets
            the functions in.
        owner: The role that owns the tables, and may make roles and extensions (`vector`): the master user,
            or one of yours. The migrations sign in as it.
        secret: The secret with the password of `owner`; without it that of the cluster.
        name: The database in the cluster. It has to exist.
        resource_id: `cluster-...`, by which IAM knows the cluster. Only an imported cluster needs it.
    """

    cluster: "rds.IDatabaseCluster"
    owner: str
    secret: "secretsmanager.ISecret | None" = None
    name: str = "layover"
    resource_id: str | None = None

    def check(self) -> "tuple[secretsmanager.ISecret, str]":
        """Return the secret and the resource id. Raises InvalidProps for a cluster that does not say enough
        of itself, or takes no tokens of IAM."""
        from aws_cdk import aws_rds as rds

        cluster = self.cluster
        expect(cluster, "cluster_endpoint", "database.cluster", "an rds.IDatabaseCluster")
        raw = cluster.node.default_child
        if isinstance(raw, rds.CfnDBCluster) and raw.enable_iam_database_authentication is not True:
            raise InvalidProps(
                "database: functions sign in with IAM, which the cluster refuses: iam_authentication=True"
            )
        secret = self.secret or getattr(cluster, "secret", None)
        if secret is None:
            raise InvalidProps(
                f"database: the cluster has no secret in this app: give the one with the password of "
                f"{self.owner}, Database(secret=...)"
            )
        try:
            return secret, self.resource_id or cluster.cluster_resource_identifier
        except Exception as error:
            # The CDK has no error of its own for it.
            if "clusterResourceIdentifier" not in str(error):
                raise
            raise InvalidProps(
                "database: a cluster that was imported does not know its resource id (cluster-...), which "
                "IAM needs: Database(resource_id=...)"
            ) from None


@dataclass(frozen=True)
class Domain:
    """A host name of your own for the HTTP API and its console.

    Attributes:
        name: `agents.example.com`.
        certificate: A certificate of ACM for it, in the region of the stack.
        zone: The hosted zone that gets the record; without it you make the record (`layover.domain`).
    """

    name: str
    certificate: "acm.ICertificate"
    zone: "route53.IHostedZone | None" = None

    def check(self) -> None:
        """Raise InvalidProps for a name that is none, or without a certificate."""
        is_host = isinstance(self.name, str) and len(self.name) <= MAX_HOST
        if not is_host or not HOST.fullmatch(self.name):
            raise InvalidProps(
                f"domain: a host name like agents.example.com is expected, not {self.name!r}"
            )
        expect(self.certificate, "certificate_arn", "domain.certificate", "an acm.ICertificate")
        if self.zone is not None:
            expect(self.zone, "hosted_zone_id", "domain.zone", "a route53.IHostedZone")


Policy: TypeAlias = "iam.PolicyStatement | Statement | Mapping[str, Any]"
"""One permission: the CDK's, ours, or `{"actions": [...], "resources": [...]}`."""
Policies: TypeAlias = "Mapping[str, Policy | Sequence[Policy]]"
"""Name of a tool, or whatever explains the permission -> what it may do."""


def kind_of(value: object) -> str:
    """Return the kind of a value, for an error: never its content."""
    return _KINDS.get(type(value), type(value).__name__)


def expect(value: object, attribute: str, prop: str, kind: str) -> None:
    """Raise InvalidProps unless a construct has the attribute that makes it one of this kind."""
    try:
        fits = hasattr(value, attribute)
    except Exception:
        # It is there, and an imported construct does not know its value.
        fits = True
    if not fits:
        raise InvalidProps(f"{prop}: {kind} is expected, not {kind_of(value)}")


def refuse_unknown(unknown: Iterable[str], props: Iterable[str]) -> None:
    """Raise InvalidProps for the first prop that does not exist, with the nearest one."""
    for name in unknown:
        hint = (
            f"; {name!r} is a setting: settings={{{name!r}: ...}}"
            if name in Settings.model_fields
            else ""
        )
        raise InvalidProps(f"Layover(...): {unknown_name('prop', name, props)}{hint}")


def settings_of(
    declared: Settings | Mapping[str, Any] | None, more: Mapping[str, Any], *, has_vpc: bool
) -> Settings:
    """Return the settings, with what other props say (`more`; None: nothing). Raises InvalidProps."""
    where = "settings="
    if isinstance(declared, Settings):
        values: dict[str, Any] = {
            name: getattr(declared, name) for name in declared.model_fields_set
        }
    elif declared is None or isinstance(declared, Mapping):
        values = dict(declared or {})
    else:
        raise InvalidProps(f"{where}: a mapping or Settings is expected, not {kind_of(declared)}")
    for name, value in more.items():
        if value is None:
            continue
        if name in values and values[name] != value:
            raise InvalidProps(f"{name} is given twice, as a prop and in {where}: give it once")
        values[name] = value
    if has_vpc:
        for name in ("nat", "vpc_id", "function_subnets", "database_subnets", "nat_ami"):
            if values.get(name):
                raise InvalidProps(
                    f"{where}{{{name!r}: ...}} belongs to a VPC of Layover's own or by its id, and "
                    "vpc= is given: leave one of them out"
                )
        values |= {"has_own_vpc": True, "nat": Nat.NONE}
    try:
        return Settings.of(values, where)
    except ValueError as error:
        raise InvalidProps(str(error)) from None


def statements_of(policies: object) -> "list[iam.PolicyStatement]":
    """Return the statements of `tool_policies`. Raises InvalidProps."""
    from aws_cdk import aws_iam as iam

    if not isinstance(policies, Mapping):
        raise InvalidProps(
            "tool_policies: a mapping is expected, {'refund': [iam.PolicyStatement(...)]}, not "
            f"{kind_of(policies)}"
        )
    statements: list[iam.PolicyStatement] = []
    for name, value in policies.items():
        place = f"tool_policies[{name!r}]"
        single = isinstance(value, Mapping | Statement | iam.PolicyStatement)
        for each in [value] if single else _listed(value, place):
            statements.append(_statement(each, place))
    return statements


def _listed(value: object, place: str) -> Sequence[object]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    raise InvalidProps(
        f"{place}: iam.PolicyStatement, {{'actions': [...], 'resources': [...]}} or a list of them is "
        f"expected, not {kind_of(value)}"
    )


def _statement(value: object, place: str) -> "iam.PolicyStatement":
    from aws_cdk import aws_iam as iam
    from pydantic import ValidationError

    if isinstance(value, iam.PolicyStatement):
        return value
    if isinstance(value, Mapping):
        for name in value:
            if name not in Statement.model_fields:
                unknown = unknown_name("option", name, Statement.model_fields)
                raise InvalidProps(f"{place}: {unknown} (conditions take an iam.PolicyStatement)")
        try:
            value = Statement.model_validate(value)
        except ValidationError as error:
            (first, *_) = error.errors(include_url=False)
            where = ".".join(map(str, (place, *first["loc"])))
            raise InvalidProps(f"{where}: {first['msg']}") from None
    if not isinstance(value, Statement):
        _listed(value, place)
        raise InvalidProps(f"{place}: a list in a list; give one list of statements")
    if not value.actions or not value.resources:
        raise InvalidProps(f"{place}: actions and resources need at least one entry each")
    return iam.PolicyStatement(actions=list(value.actions), resources=list(value.resources))


def as_settings(statements: "Iterable[iam.PolicyStatement]") -> list[Statement]:
    """Return what the statements allow, without their conditions."""
    from aws_cdk import aws_iam as iam

    return [
        Statement(actions=tuple(each.actions), resources=tuple(each.resources))
        for each in statements
        if each.effect == iam.Effect.ALLOW
    ]


def subnets_of(
    vpc: "ec2.IVpc",
    functions: "ec2.SubnetSelection | None",
    database: "ec2.SubnetSelection | None",
    *,
    makes_database: bool,
) -> "tuple[ec2.SubnetSelection, ec2.SubnetSelection]":
    """Return the subnets of the functions and of the database. Raises InvalidProps for a VPC that has none
    that fit."""
    from aws_cdk import aws_ec2 as ec2

    expect(vpc, "vpc_id", "vpc", "an ec2.IVpc, such as ec2.Vpc(...) or ec2.Vpc.from_lookup(...),")
    if functions is None:
        if not vpc.private_subnets:
            raise InvalidProps(
                "vpc has no private subnets with a way out, from which functions reach models and AWS: add "
                "some (ec2.SubnetType.PRIVATE_WITH_EGRESS), or name others with function_subnets="
            )
        functions = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS)
    if database is None:
        isolated = vpc.isolated_subnets
        kind = ec2.SubnetType.PRIVATE_ISOLATED if isolated else ec2.SubnetType.PRIVATE_WITH_EGRESS
        if makes_database and not isolated and not vpc.private_subnets:
            raise InvalidProps(
                "vpc has no isolated and no private subnets for the database: add some, or name others with "
                "database_subnets="
            )
        database = ec2.SubnetSelection(subnet_type=kind)
    if makes_database:
        zones = _zones(vpc, database)
        if zones is not None and zones < 2:
            raise InvalidProps(
                f"the subnets of the database are in {zones} zone, and Aurora needs two: give vpc another "
                "zone (max_azs=2), or name other subnets with database_subnets="
            )
    return functions, database


def _zones(vpc: "ec2.IVpc", selection: "ec2.SubnetSelection") -> int | None:
    """Return the number of zones of the selection: Aurora refuses one only after a quarter of an hour. The
    zones of subnets that are named one by one may be unknown, so each counts as one. None: the CDK looks the
    VPC up after this pass, and begins again."""
    if selection.subnets is not None:
        return len(selection.subnets)
    selected = vpc.select_subnets(
        availability_zones=selection.availability_zones,
        one_per_az=selection.one_per_az,
        subnet_filters=selection.subnet_filters,
        subnet_group_name=selection.subnet_group_name,
        subnet_type=selection.subnet_type,
    )
    return None if selected.is_pending_lookup else len(set(selected.availability_zones))


def agents_at(path: "str | Path") -> Path:
    """Return the folder or file of the agents. Raises InvalidProps, with the nearest name."""
    if not isinstance(path, str | Path):
        raise InvalidProps(
            f"agents: the path of a package or module is expected, not {kind_of(path)}"
        )
    place = Path(path)
    if place.exists():
        return place
    if place.with_suffix(".py").exists():
        return place.with_suffix(".py")
    folder = place.parent
    near = [each.name for each in folder.iterdir() if _is_package(each)] if folder.is_dir() else []
    raise InvalidProps(
        f"agents: {unknown_name('package', place.name, near)} (looked in {folder.resolve()})"
    )


def _is_package(path: Path) -> bool:
    return path.suffix == ".py" or (path / "__init__.py").is_file()
