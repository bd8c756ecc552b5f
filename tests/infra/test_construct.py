"""The construct in a stack of one's own: props that are refused, and what becomes of the others."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from layover.desk.cdk.props import InvalidProps
from layover.desk.cdk.settings import FUNCTIONS
from layover.desk.cdk.variables import AGENTS, LOADS_AGENTS
from support.aws.templates import BANK_KEY, Synthesized, listed

GITHUB = (
    "Connection('github', authorize_url='https://g.example/a', token_url='https://g.example/t', "
    "client_id='i', client_secret={secret})"
)
TOOLS = {name for name, each in FUNCTIONS.items() if each.tools}


@pytest.fixture
def refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What the construct says to these props. Some are made in the stack, which their functions get."""
    if shutil.which("node") is None:
        pytest.skip("the CDK needs Node on the path")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").touch()
    (tmp_path / "agents" / "requirements.txt").touch()
    monkeypatch.chdir(tmp_path)

    def said(**props: Any) -> str:
        # Seconds, and a process of node's: for no worker that only collects.
        from aws_cdk import App, Stack

        from layover.cdk import Layover

        stack = Stack(App(analytics_reporting=False, outdir=str(tmp_path / "out")), "shop")
        given = {name: p(stack) if callable(p) else p for name, p in props.items()}
        with pytest.raises(InvalidProps) as refused:
            Layover(stack, "Agents", **given)
        return str(refused.value)

    return said


def a_vpc(stack: Any) -> Any:
    from aws_cdk import aws_ec2 as ec2

    return ec2.Vpc(stack, "Vpc", max_azs=2, nat_gateways=1)


def a_vpc_of_one_zone(stack: Any) -> Any:
    from aws_cdk import aws_ec2 as ec2

    return ec2.Vpc(stack, "Vpc", max_azs=1, nat_gateways=1)


def a_public_vpc(stack: Any) -> Any:
    from aws_cdk import aws_ec2 as ec2

    public = ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC)
    return ec2.Vpc(stack, "Vpc", max_azs=2, subnet_configuration=[public])


def one_subnet(stack: Any) -> Any:
    from aws_cdk import aws_ec2 as ec2

    subnet = ec2.Subnet.from_subnet_id(stack, "Subnet", "subnet-0a")
    return ec2.SubnetSelection(subnets=[subnet])


def a_pool(stack: Any) -> Any:
    from aws_cdk import aws_cognito as cognito

    return cognito.UserPool(stack, "Pool")


def a_cluster(**more: Any) -> Callable[[Any], Any]:
    """A database whose cluster has these properties, in the stack's VPC."""

    def made(stack: Any) -> Any:
        from aws_cdk import aws_rds as rds

        from layover.cdk import Database

        cluster = rds.DatabaseCluster(
            stack,
            "Cluster",
            engine=rds.DatabaseClusterEngine.aurora_postgres(
                version=rds.AuroraPostgresEngineVersion.VER_18_4
            ),
            writer=rds.ClusterInstance.serverless_v2("Writer"),
            vpc=stack.node.find_child("Vpc"),
            **more,
        )
        return Database(cluster, owner="postgres")

    return made


def an_imported_cluster(stack: Any) -> Any:
    from aws_cdk import aws_rds as rds
    from aws_cdk import aws_secretsmanager as secretsmanager

    from layover.cdk import Database

    cluster = rds.DatabaseCluster.from_database_cluster_attributes(
        stack, "Cluster", cluster_identifier="c", cluster_endpoint_address="c.example", port=5432
    )
    return Database(cluster, owner="o", secret=secretsmanager.Secret(stack, "Password"))


def a_domain(name: Any, certificate: Any = None) -> Callable[[Any], Any]:
    def made(stack: Any) -> Any:
        from layover.cdk import Domain

        return Domain(name, certificate)

    return made


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a prop that is mistyped": ({"agnets": "agents"}, "no prop 'agnets': did you mean 'agents'?"),
    "a setting as a prop": ({"stage": "prod"}, "'stage' is a setting: settings={'stage': ...}"),
    "a package that is mistyped": ({"agents": "agent"}, "did you mean 'agents'?"),
    "agents of another kind": (
        {"agents": 7},
        "the path of a package or module is expected, not int",
    ),
    "a setting that is mistyped": (
        {"settings": {"stge": "prod"}},
        "settings=: no setting 'stge': did you mean 'stage'?",
    ),
    "a setting of another kind": (
        {"settings": {"api_rate": "fast"}},
        "api_rate must be a valid integer",
    ),
    "settings that are none": (
        {"settings": "prod"},
        "a mapping or Settings is expected, not a text",
    ),
    "a name that Cognito refuses": (
        {"settings": {"name": "aws-shop"}},
        "name cannot be 'aws-shop'",
    ),
    "the id of a VPC": ({"vpc": "vpc-0a"}, "an ec2.IVpc, such as ec2.Vpc(...)"),
    "a VPC twice": (
        {"vpc": a_vpc, "settings": {"vpc_id": "vpc-0a"}},
        "settings={'vpc_id': ...} belongs to a VPC of Layover's own or by its id",
    ),
    "a way out of a VPC that has one": ({"vpc": a_vpc, "settings": {"nat": "gateway"}}, "'nat'"),
    "a VPC without a way out": ({"vpc": a_public_vpc}, "no private subnets with a way out"),
    "a VPC of one zone": ({"vpc": a_vpc_of_one_zone}, "in 1 zone, and Aurora needs two"),
    "one subnet for the database": (
        {"vpc": a_vpc, "database_subnets": one_subnet},
        "in 1 zone, and Aurora needs two",
    ),
    "subnets without their VPC": ({"function_subnets": "s"}, "function_subnets needs the vpc"),
    "a database without its VPC": (
        {"vpc": None, "database": lambda stack: (a_vpc(stack), a_cluster()(stack))[1]},
        "database needs the vpc that has it",
    ),
    "a cluster for a database": (
        {"vpc": a_vpc, "database": "c"},
        "Database(cluster, owner=...) is expected",
    ),
    "a cluster that refuses IAM": (
        {"vpc": a_vpc, "database": a_cluster()},
        "iam_authentication=True",
    ),
    "a cluster of which little is known": (
        {"vpc": a_vpc, "database": an_imported_cluster},
        "Database(resource_id=...)",
    ),
    "the id of a user pool": ({"user_pool": "eu-west-1_Pool"}, "a cognito.IUserPool, such as"),
    "users twice": (
        {"user_pool": a_pool, "issuer": "https://id.example", "audience": ["a"]},
        "user_pool and issuer exclude each other",
    ),
    "a rule for users of a pool that is there": (
        {"user_pool": a_pool, "settings": {"mfa": "required"}},
        "settings={'mfa': ...} is about a user pool that Layover makes",
    ),
    "sign-in pages of no pool": ({"user_pool_domain": "d"}, "user_pool_domain needs the user_pool"),
    "an issuer without an audience": ({"issuer": "https://id.example"}, "issuer needs an audience"),
    "letters for audiences": (
        {"issuer": "https://id.example", "audience": "shop"},
        "audience: a list, audience=[...], is expected, not a text",
    ),
    "an issuer twice": (
        {
            "issuer": "https://a.example",
            "audience": ["a"],
            "settings": {"issuer": "https://b.example"},
        },
        "issuer is given twice",
    ),
    "policies that are a list": (
        {"tool_policies": ["s3:*"]},
        "tool_policies: a mapping is expected",
    ),
    "a policy that is a text": (
        {"tool_policies": {"refund": "ses:SendEmail"}},
        "tool_policies['refund']: iam.PolicyStatement, {'actions': [...], 'resources': [...]} or a list",
    ),
    "a policy with a mistyped name": (
        {"tool_policies": {"refund": {"action": ["a:b"], "resources": ["*"]}}},
        "tool_policies['refund']: no option 'action': did you mean 'actions'?",
    ),
    "a policy without resources": (
        {"tool_policies": {"refund": {"actions": ["a:b"]}}},
        "tool_policies['refund'].resources: Field required",
    ),
    "a policy that allows nothing": (
        {"tool_policies": {"refund": {"actions": [], "resources": ["*"]}}},
        "need at least one entry",
    ),
    "a host name that is none": (
        {"domain": a_domain("https://agents.example")},
        "a host name like",
    ),
    "a host name of another kind": (
        {"domain": "agents.example"},
        "Domain(name, certificate) is expected",
    ),
    "a host name without a certificate": (
        {"domain": a_domain("agents.example.com")},
        "domain.certificate: an acm.ICertificate is expected, not None",
    ),
    "packages that are one text": ({"packages": "shop"}, "packages: a list, packages=[...]"),
    "half of what was built": ({"settings": {"layer": "build/layer"}}, "give agents=None"),
}


@pytest.mark.parametrize(("props", "says"), REFUSED.values(), ids=list(REFUSED))
def test_props_that_make_no_sense_are_refused_with_what_is_expected(
    refusal: Callable[..., str], props: dict[str, Any], says: str
) -> None:
    assert says in refusal(**props)


def test_refusal_shows_no_value_of_a_policy(refusal: Callable[..., str]) -> None:
    said = refusal(
        tool_policies={"refund": {"actions": ["a:b"], "resources": 7, "secret": "hidden"}}
    )
    assert "hidden" not in said


def test_region_that_cannot_have_it_is_refused(
    refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDK_DEFAULT_REGION", "cn-north-1")
    assert "cn-north-1 is in the partition aws-cn" in refusal()


@pytest.mark.form
def test_second_system_of_the_same_name_in_a_stack_is_refused(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    from aws_cdk import App, Stack

    from layover.cdk import Layover

    (tmp_path / "layer" / "certificates").mkdir(parents=True)
    (tmp_path / "layer" / "certificates" / "rds.pem").touch()
    (tmp_path / "functions").mkdir()
    context = {"@layover/built": str(tmp_path)}
    stack = Stack(App(analytics_reporting=False, outdir=str(tmp_path / "o"), context=context), "s")
    Layover(stack, "One")
    with pytest.raises(InvalidProps, match="names that begin with layover-dev: give one of them"):
        Layover(stack, "Other")


# Synthesis says, in this process: one process of node's for all that agents' code may say


def annotations(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, **props: Any) -> Any:
    """The stack of agents with this code, and what synthesis says of it."""
    if shutil.which("node") is None:
        pytest.skip("the CDK needs Node on the path")
    # Seconds, and a process of node's: for no worker that only collects.
    from aws_cdk import App, Stack
    from aws_cdk.assertions import Annotations, Template

    from layover.cdk import Layover

    for name in ("agents", "functions", "layer/certificates"):
        (folder / name).mkdir(parents=True)
    (folder / "layer" / "certificates" / "rds.pem").touch()
    (folder / "agents" / "__init__.py").write_text(code)
    monkeypatch.chdir(folder)
    context = {"@layover/built": str(folder)}
    stack = Stack(App(analytics_reporting=False, outdir=str(folder / "o"), context=context), "s")
    Layover(stack, "Agents", **props)
    return Annotations.from_stack(stack), Template.from_stack(stack)


@pytest.mark.form
def test_computed_groups_are_warned_of_until_a_setting_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aws_cdk.assertions import Match

    code = "Approval(by=[team()])"
    about = Match.string_like_regexp(r"agents/__init__\.py:1 names groups .* setting `groups`")
    said, _ = annotations(tmp_path / "a", monkeypatch, code)
    said.has_warning("/s/Agents", about)
    named, _ = annotations(tmp_path / "b", monkeypatch, code, settings={"groups": ["ops"]})
    named.has_no_warning("/s/Agents", about)
    elsewhere = {"issuer": "https://id.example", "audience": ["a"]}
    there, _ = annotations(tmp_path / "c", monkeypatch, code, **elsewhere)
    there.has_no_warning("/s/Agents", about)


@pytest.mark.form
def test_computed_secret_is_warned_of_until_a_setting_gives_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aws_cdk.assertions import Match

    code = GITHUB.format(secret="secret(name())")
    secrets = {"tool_secrets": {"GITHUB": "/shop/github"}, "name": "shop"}
    about = Match.string_like_regexp(r"agents/__init__\.py:1 .* setting `connections`")
    said, stack = annotations(tmp_path / "a", monkeypatch, code, settings=secrets)
    said.has_warning("/s/Agents", about)
    stack.resource_count_is("AWS::KMS::Key", 1)
    told = {**secrets, "connections": True}
    said, stack = annotations(tmp_path / "b", monkeypatch, code, settings=told)
    said.has_no_warning("/s/Agents", about)
    assert _secrets_of(stack, "api") == "GITHUB"


@pytest.mark.form
def test_setting_makes_the_key_for_connections_that_a_package_of_others_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"connections": True, "retain": False, "protection": False}
    _, stack = annotations(tmp_path, monkeypatch, "from accounts import github", settings=settings)
    (key,) = stack.find_resources("AWS::KMS::Key").values()
    assert key["DeletionPolicy"] == "Delete"
    url = _variables(stack, "turn")["LAYOVER_CONNECTIONS_URL"]
    assert "/connected" in json.dumps(url)
    assert "Ref" in json.dumps(url) or "Fn::GetAtt" in json.dumps(url)


@pytest.mark.form
def test_secret_that_no_setting_has_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aws_cdk.assertions import Match

    about = Match.string_like_regexp(
        r"GITHUB_SECRET, which no setting has: say in `tool_secrets`.*"
    )
    code = GITHUB.format(secret="secret('GITHUB_SECRET')")
    said, _ = annotations(tmp_path, monkeypatch, code)
    said.has_warning("/s/Agents", about)


def _variables(stack: Any, name: str) -> Any:
    (found,) = (
        f["Properties"]["Environment"]["Variables"]
        for f in stack.find_resources("AWS::Lambda::Function").values()
        if f["Properties"]["Handler"] == f"functions.{name}.handler.handler"
    )
    return found


def _secrets_of(stack: Any, name: str) -> Any:
    return _variables(stack, name).get("LAYOVER_TOOL_SECRETS")


# Apps of one's own


@pytest.fixture(params=["ten_lines", "approvals", "everything_given"])
def stack(request: pytest.FixtureRequest) -> Synthesized:
    """Each app of one's own."""
    app: Synthesized = request.getfixturevalue(request.param)
    return app


@pytest.mark.form
def test_no_rule_of_cdk_nag_is_broken(stack: Synthesized) -> None:
    assert "ERROR" not in stack.said
    assert "WARNING" not in stack.said


def test_cfn_lint_has_nothing_to_say(ten_lines: Synthesized) -> None:
    assert ten_lines.linted() == []


def test_cfn_lint_has_nothing_to_say_of_the_others(
    approvals: Synthesized, everything_given: Synthesized
) -> None:
    assert approvals.linted() == []
    # An output repeats what the app's other stack exports: the issuer is that of its pool.
    assert {rule for rule, _ in everything_given.linted()} <= {"W6001"}


def test_names_are_those_of_the_project(ten_lines: Synthesized) -> None:
    names = {f["FunctionName"] for f in ten_lines.functions().values()}
    assert names == {f"shop-prod-{name}" for name in FUNCTIONS}
    assert "layover-dev" not in json.dumps(ten_lines.template)


def test_outputs_are_found_by_the_id_of_the_construct(ten_lines: Synthesized) -> None:
    assert {"AgentsApiUrl", "AgentsStreamUrl", "AgentsTableName"} <= ten_lines.template[
        "Outputs"
    ].keys()


def test_functions_import_the_agents_of_the_project(ten_lines: Synthesized) -> None:
    variables = {n: f["Environment"]["Variables"] for n, f in ten_lines.functions().items()}
    assert {n: v[AGENTS] for n, v in variables.items() if AGENTS in v} == dict.fromkeys(
        LOADS_AGENTS, "agents"
    )


def test_functions_and_database_are_in_the_vpc_of_the_other_stack(ten_lines: Synthesized) -> None:
    kinds = {r["Type"] for r in ten_lines.template["Resources"].values()}
    assert {kind for kind in kinds if kind.startswith("AWS::EC2")} == {
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupIngress",
    }
    placed = [f["VpcConfig"] for f in ten_lines.functions().values() if "VpcConfig" in f]
    assert len(placed) == sum(each.postgres for each in FUNCTIONS.values())
    assert all(len(each["SubnetIds"]) == 2 for each in placed)


def test_cluster_that_is_there_lets_the_functions_in(everything_given: Synthesized) -> None:
    assert everything_given.of_type("AWS::RDS::DBCluster") == {}
    rules = everything_given.of_type("AWS::EC2::SecurityGroupIngress").values()
    (rule,) = (r["Properties"] for r in rules)
    assert (rule["FromPort"], rule["ToPort"]) == (5432, 5432)
    variables = everything_given.functions()["migrate"]["Environment"]["Variables"]
    assert "postgresql://shop_owner@" in json.dumps(variables["LAYOVER_DATABASE_ADMIN_URL"])
    assert "/agents?sslmode=verify-full" in json.dumps(variables["LAYOVER_DATABASE_ADMIN_URL"])


def test_users_of_the_pool_that_is_there_sign_in_at_a_client_of_this_stack(
    everything_given: Synthesized,
) -> None:
    for kind in ("AWS::Cognito::UserPool", "AWS::Cognito::UserPoolDomain"):
        assert everything_given.of_type(kind) == {}
    client = everything_given.one("AWS::Cognito::UserPoolClient")
    assert "https://agents.example.com/" in client["CallbackURLs"]


def test_pool_without_sign_in_pages_gets_some(ten_lines: Synthesized) -> None:
    assert len(ten_lines.of_type("AWS::Cognito::UserPoolDomain")) == 1


def test_tools_may_do_what_their_policies_say_and_other_functions_may_not(
    everything_given: Synthesized,
) -> None:
    for name in FUNCTIONS:
        statements = everything_given.statements(name)
        actions = {action for s in statements for action in listed(s["Action"])}
        wanted = {"ses:SendEmail", "sqs:SendMessage"}
        assert actions & wanted == (wanted if name in TOOLS else set())
        # What the app grants to `tool_functions`.
        assert ("dynamodb:Scan" in actions) == (name in TOOLS)


def test_tools_may_read_their_secrets_and_other_functions_may_not(
    everything_given: Synthesized,
) -> None:
    for name in FUNCTIONS:
        statements = everything_given.statements(name)
        places = {
            action: str(s["Resource"])
            for s in statements
            for action in listed(s["Action"])
            if action in ("ssm:GetParameter", "secretsmanager:GetSecretValue")
        }
        is_of_tools = name in TOOLS
        assert (places.get("secretsmanager:GetSecretValue") == BANK_KEY) == is_of_tools
        assert ("parameter/shop/key" in places.get("ssm:GetParameter", "")) == is_of_tools
        variables = everything_given.functions()[name]["Environment"]["Variables"]
        assert variables.get("LAYOVER_TOOL_SECRETS") == (
            "SHOP_KEY,BANK_KEY" if is_of_tools else None
        )
        assert (variables.get("BANK_KEY") == BANK_KEY) == is_of_tools


def test_variables_of_the_project_are_wherever_its_agents_are_imported(
    everything_given: Synthesized,
) -> None:
    """An `extract` without them would fail to import a module that reads one, and learn nothing."""
    functions = everything_given.functions()
    has = {n for n, f in functions.items() if f["Environment"]["Variables"].get("SHOP") == "main"}
    assert has == {*LOADS_AGENTS}


def test_condition_of_a_policy_is_kept(everything_given: Synthesized) -> None:
    for name in TOOLS:
        (mail,) = (
            s for s in everything_given.statements(name) if "ses:SendEmail" in listed(s["Action"])
        )
        assert mail["Condition"] == {"StringEquals": {"ses:FromAddress": "shop@shop.example"}}


def test_host_name_leads_to_the_api_and_is_an_origin(everything_given: Synthesized) -> None:
    assert (
        everything_given.one("AWS::ApiGatewayV2::DomainName")["DomainName"] == "agents.example.com"
    )
    record = everything_given.one("AWS::Route53::RecordSet")
    assert (record["Name"], record["Type"]) == ("agents.example.com.", "A")
    (mapping,) = everything_given.of_type("AWS::ApiGatewayV2::ApiMapping").values()
    assert mapping["Properties"]["Stage"]
    outputs = everything_given.template["Outputs"]
    assert outputs["AgentsApiUrl"]["Value"] == "https://agents.example.com"
    (rule,) = everything_given.one("AWS::S3::Bucket")["CorsConfiguration"]["CorsRules"]
    assert rule["AllowedOrigins"][0] == "https://agents.example.com"


def test_events_of_the_bus_reach_what_the_app_has(approvals: Synthesized) -> None:
    rules = [r["Properties"] for r in approvals.of_type("AWS::Events::Rule").values()]
    (asking,) = (r for r in rules if "EventPattern" in r)
    assert asking["EventPattern"] == {"detail-type": ["ApprovalRequested"]}
    assert "Ref" in asking["EventBusName"] or "Fn::" in json.dumps(asking["EventBusName"])
    (target,) = asking["Targets"]
    # Whoever reads the token may decide: what the page shows sends it to nobody.
    assert [*target["InputTransformer"]["InputPathsMap"].values()] == ["$.detail.tool_name"]


def test_logical_ids_of_the_repositorys_stack_are_those_before_the_construct(
    gateway: Synthesized,
) -> None:
    """Another id would make CloudFormation replace a table with data in it."""
    kept = {
        "AWS::DynamoDB::Table": "JournalTableE0A5D4A5",
        "AWS::S3::Bucket": "BucketD7FEB781",
        "AWS::RDS::DBCluster": "DatabaseCluster5B53A178",
        "AWS::RDS::DBSubnetGroup": "DatabaseClusterSubnets5540150D",
        "AWS::EC2::VPC": "NetworkVpc7FB7348F",
        "AWS::Cognito::UserPool": "IdentityUsers61009EFD",
        "AWS::Cognito::UserPoolClient": "IdentityUsersPeople19BB7889",
        "AWS::Cognito::UserPoolDomain": "IdentityUsersDomain884689BD",
        "AWS::StepFunctions::StateMachine": "WorkflowRunFC1E545A",
    }
    assert {kind: [*gateway.of_type(kind)] for kind in kept} == {k: [n] for k, n in kept.items()}
    assert {"ApiUrl", "TableName"} <= gateway.template["Outputs"].keys()
