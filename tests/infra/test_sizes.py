"""The sizes of a stage: what each sets, what wins over it, and what a month of it costs."""

import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from layover.desk.cdk import prices
from layover.desk.cdk.calls import CALLS, ENCRYPTS
from layover.desk.cdk.ipv6 import out_of_reach
from layover.desk.cdk.props import InvalidProps, settings_of
from layover.desk.cdk.settings import FUNCTIONS, Settings
from layover.desk.cdk.sizes import VALUES, Nat, Size
from support.aws.templates import Synthesized, listed

COSTS = (Path(__file__).parents[2] / "docs" / "deploy" / "costs.md").read_text("utf-8")
MAIL = "ann@example.com"


def sized(**more: Any) -> Settings:
    return Settings.of({"size": "production", "alarms_email": MAIL, **more})


# Settings


def test_production_without_an_address_for_its_alarms_is_refused() -> None:
    with pytest.raises(ValueError, match="size=production needs alarms_email"):
        Settings.of({"size": "production"})


def test_size_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match=r"size.*small.*production"):
        Settings.of({"size": "large"})


@pytest.mark.parametrize("given", [{"nat": "instance"}, {"nat": "ipv6"}, {}])
def test_gateways_without_nat_gateway_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="nat_gateways needs nat=gateway"):
        Settings.of({**given, "nat_gateways": 2})


def test_more_gateways_than_zones_are_refused() -> None:
    with pytest.raises(ValueError, match="nat_gateways cannot be 3: the VPC has 2 zones"):
        Settings.of({"nat": "gateway", "nat_gateways": 3})


def test_every_value_of_a_size_is_a_setting_that_the_stage_has() -> None:
    settings = sized()
    for name, value in VALUES[Size.PRODUCTION].items():
        assert getattr(settings, name) == value, name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nat", Nat.INSTANCE),
        ("nat_gateways", 1),
        ("database_min_acu", 0),
        ("database_readers", 0),
        ("bucket_versions_days", 7),
        ("own_key", False),
        ("protection", False),
        ("runs_per_minute", 5),
        ("dashboard", False),
    ],
)
def test_what_the_deployer_chooses_wins_over_the_size(name: str, value: object) -> None:
    settings = sized(**{name: value})
    assert getattr(settings, name) == value
    assert settings.size is Size.PRODUCTION


def test_choice_on_the_command_line_wins_over_the_size_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "prod.json").write_text(f'{{"size": "production", "alarms_email": "{MAIL}"}}')
    context = {"stages": str(tmp_path), "stage": "prod", "database_readers": "0"}
    settings = Settings.from_context(context)
    assert (settings.database_readers, settings.own_key) == (0, True)


def test_size_is_told_and_what_it_sets_is_not_taken_for_a_choice() -> None:
    assert sized(nat="instance").model_fields_set == {"size", "alarms_email", "nat"}


def test_vpc_of_the_deployers_gets_no_gateways_of_the_size() -> None:
    given = {"nat": "none", "vpc_id": "vpc-0a", "function_subnets": "subnet-0a"}
    by_id = sized(**given, database_subnets="subnet-0b,subnet-0c")
    by_prop = settings_of(sized(), {}, has_vpc=True)
    for settings in (by_id, by_prop):
        assert (settings.nat, settings.nat_gateways, settings.own_key) == (Nat.NONE, 1, True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"domain": "agents.example.com"}, "domain needs domain_certificate"),
        ({"domain_zone": "Z0123456789"}, "need the domain"),
        ({"domain": "https://agents.example.com", "domain_zone": "Z0123456789"}, "domain"),
        ({"domain": "localhost", "domain_zone": "Z0123456789"}, "domain"),
        ({"domain": "a.example", "domain_certificate": "arn:aws:iam::1:server"}, "certificate"),
    ],
    ids=str,
)
def test_host_name_that_cannot_work_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Settings.of(given)


# Templates


def test_production_has_a_way_out_in_each_zone(production: Synthesized) -> None:
    gateways = production.of_type("AWS::EC2::NatGateway")
    assert len(gateways) == 2
    routes = [r["Properties"] for r in production.of_type("AWS::EC2::Route").values()]
    used = [r["NatGatewayId"]["Ref"] for r in routes if "NatGatewayId" in r]
    assert sorted(used) == sorted(gateways)


def test_production_never_sleeps_and_has_a_reader_as_large_as_the_writer(
    production: Synthesized,
) -> None:
    cluster = production.one("AWS::RDS::DBCluster")
    assert cluster["ServerlessV2ScalingConfiguration"] == {"MinCapacity": 0.5, "MaxCapacity": 16}
    instances = [r["Properties"] for r in production.of_type("AWS::RDS::DBInstance").values()]
    assert [each.get("PromotionTier") for each in instances] == [0, 1]
    assert {each["AutoMinorVersionUpgrade"] for each in instances} == {False}
    assert cluster["BackupRetentionPeriod"] == 14


def test_production_encrypts_table_bucket_and_cluster_with_its_own_key(
    production: Synthesized,
) -> None:
    ((key, resource),) = production.of_type("AWS::KMS::Key").items()
    arn = {"Fn::GetAtt": [key, "Arn"]}
    assert resource["Properties"]["EnableKeyRotation"] is True
    assert resource["DeletionPolicy"] == "RetainExceptOnCreate"
    table = production.one("AWS::DynamoDB::Table")["SSESpecification"]
    assert (table["KMSMasterKeyId"], table["SSEType"]) == (arn, "KMS")
    bucket = production.one("AWS::S3::Bucket")["BucketEncryption"]
    (rule,) = bucket["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["KMSMasterKeyID"] == arn
    assert rule["BucketKeyEnabled"] is True
    assert production.one("AWS::RDS::DBCluster")["KmsKeyId"] == arn


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_only_what_uses_the_data_may_use_its_key_and_only_through_the_stores(
    production: Synthesized, name: str
) -> None:
    found = [s for s in production.statements(name) if "kms:" in json.dumps(s["Action"])]
    calls = CALLS[name]
    assert bool(found) == bool(calls.journal or calls.blobs)
    for statement in found:
        assert set(listed(statement["Action"])) == {f"kms:{action}" for action in ENCRYPTS}
        via = json.dumps(statement["Condition"]["StringEquals"]["kms:ViaService"])
        assert "dynamodb." in via
        assert "s3." in via


def test_versions_of_production_end_as_erased_files_have_to(production: Synthesized) -> None:
    bucket = production.one("AWS::S3::Bucket")
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    rules = {key: rule for rule in bucket["LifecycleConfiguration"]["Rules"] for key in rule}
    versions = rules["NoncurrentVersionExpiration"]
    assert versions["NoncurrentVersionExpiration"] == {"NoncurrentDays": 30}
    assert versions["ExpiredObjectDeleteMarker"] is True
    assert "AbortIncompleteMultipartUpload" in rules


def test_production_is_protected_throttled_and_watched(production: Synthesized) -> None:
    assert production.protected
    assert production.one("AWS::RDS::DBCluster")["DeletionProtection"] is True
    assert production.one("AWS::SNS::Subscription")["Endpoint"] == MAIL
    assert len(production.of_type("AWS::CloudWatch::Dashboard")) == 1
    api = production.functions()["api"]
    assert api["ReservedConcurrentExecutions"] == 200
    assert api["Environment"]["Variables"]["LAYOVER_RUNS_PER_MINUTE"] == "60"


def test_small_has_nothing_of_it(plain: Synthesized) -> None:
    for kind in ("KMS::Key", "EC2::NatGateway", "CloudWatch::Dashboard"):
        assert plain.of_type(f"AWS::{kind}") == {}
    assert len(plain.of_type("AWS::RDS::DBInstance")) == 1
    cluster = plain.one("AWS::RDS::DBCluster")
    assert cluster["ServerlessV2ScalingConfiguration"]["SecondsUntilAutoPause"] == 300
    assert "VersioningConfiguration" not in plain.one("AWS::S3::Bucket")


def test_host_name_with_a_zone_gets_a_certificate_and_a_record(production: Synthesized) -> None:
    certificate = production.one("AWS::CertificateManager::Certificate")
    (proof,) = certificate["DomainValidationOptions"]
    assert proof["HostedZoneId"] == "Z0123456789ABCDEFGHIJ"
    record = production.one("AWS::Route53::RecordSet")
    assert record["Name"] == "agents.example.com."
    assert production.template["Outputs"]["ApiUrl"]["Value"] == "https://agents.example.com"


def test_host_name_without_a_zone_says_where_it_has_to_lead(ipv6: Synthesized) -> None:
    assert ipv6.of_type("AWS::CertificateManager::Certificate") == {}
    assert ipv6.of_type("AWS::Route53::RecordSet") == {}
    assert "RegionalDomainName" in json.dumps(ipv6.template["Outputs"]["DomainTarget"])


# Without NAT


def test_way_out_by_ipv6_is_one_gateway_that_costs_nothing(ipv6: Synthesized) -> None:
    assert len(ipv6.of_type("AWS::EC2::EgressOnlyInternetGateway")) == 1
    for kind in ("NatGateway", "Instance", "EIP"):
        assert ipv6.of_type(f"AWS::EC2::{kind}") == {}
    routes = [r["Properties"] for r in ipv6.of_type("AWS::EC2::Route").values()]
    out = [r for r in routes if "EgressOnlyInternetGatewayId" in r]
    assert {r["DestinationIpv6CidrBlock"] for r in out} == {"::/0"}
    assert any("functionsSubnet" in r["RouteTableId"]["Ref"] for r in out)


def test_database_has_no_way_out_by_ipv6(ipv6: Synthesized) -> None:
    routes = ipv6.of_type("AWS::EC2::Route").values()
    tables = [json.dumps(r["Properties"]["RouteTableId"]) for r in routes]
    assert tables
    assert not any("databaseSubnet" in each for each in tables)


def test_functions_in_the_vpc_leave_it_by_ipv6_and_ask_hosts_that_have_it(
    ipv6: Synthesized,
) -> None:
    for name, function in ipv6.functions().items():
        variables = function["Environment"]["Variables"]
        hosts = [value for key, value in variables.items() if key.startswith("AWS_ENDPOINT_URL_")]
        if FUNCTIONS[name].postgres:
            assert function["VpcConfig"]["Ipv6AllowedForDualStack"] is True
            assert all(".api.aws" in json.dumps(host) for host in hosts)
            assert {"AWS_ENDPOINT_URL_SFN", "AWS_ENDPOINT_URL_EVENTBRIDGE"} <= variables.keys()
            # The free endpoints of the VPC lead there, by IPv4.
            assert not {"AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_S3"} & variables.keys()
        else:
            assert hosts == []
    (group,) = (
        each["Properties"]
        for each in ipv6.of_type("AWS::EC2::SecurityGroup").values()
        if each["Properties"]["GroupDescription"] == "Functions that ask the database"
    )
    assert "::/0" in json.dumps(group["SecurityGroupEgress"])


def test_sockets_are_reached_by_ipv6(ipv6: Synthesized, plain: Synthesized) -> None:
    def kind(stack: Synthesized) -> object:
        apis = [r["Properties"] for r in stack.of_type("AWS::ApiGatewayV2::Api").values()]
        (sockets,) = (each for each in apis if each["ProtocolType"] == "WEBSOCKET")
        return sockets.get("IpAddressType")

    assert (kind(ipv6), kind(plain)) == ("dualstack", None)


def without(*hosts: str) -> Any:
    """A look-up in which these hosts have no IPv6 address."""
    return lambda host: host not in hosts


@pytest.mark.parametrize(
    ("given", "missing", "told"),
    [
        ({}, ["api.openai.com"], ["api.openai.com"]),
        ({"openai_base_url": "https://m.example/v1"}, ["m.example"], ["m.example"]),
        ({"otlp_endpoint": "https://o.example"}, ["o.example"], ["o.example"]),
        ({"nat": "instance"}, ["api.openai.com"], []),
        # Nothing asks OpenAI.
        (
            {
                "model": "claude/some",
                "embedder_model": "hashing/256",
                "providers": {"claude": {"base_url": "https://c.example", "api": "anthropic"}},
            },
            ["api.openai.com"],
            [],
        ),
        (
            {
                "model": "claude/some",
                "providers": {"claude": {"base_url": "https://c.example", "api": "anthropic"}},
            },
            ["c.example"],
            ["c.example"],
        ),
    ],
    ids=str,
)
def test_hosts_that_ipv6_does_not_reach_are_named(
    given: dict[str, Any], missing: list[str], told: list[str]
) -> None:
    settings = Settings.of({"nat": "ipv6", **given})
    assert out_of_reach(settings, has_address=without(*missing)) == told


def test_region_in_which_aws_has_no_hosts_with_ipv6_is_found() -> None:
    settings = Settings.of({"nat": "ipv6"})
    looked_up: list[str] = []

    def has_address(host: str) -> bool:
        looked_up.append(host)
        return host != "states.eu-west-1.api.aws"

    assert out_of_reach(settings, "eu-west-1", has_address) == ["states.eu-west-1.api.aws"]
    assert "events.eu-west-1.api.aws" in looked_up
    # No model is asked there.
    assert "bedrock-runtime.eu-west-1.api.aws" not in looked_up


# Prices


def told(stack: Synthesized) -> str:
    """What the CDK's command line says of the price."""
    files = [*stack.folder.glob("*.json"), stack.folder / "manifest.json"]
    (text,) = {t for f in files for t in _texts(json.loads(f.read_text())) if "a month while" in t}
    return text


def _texts(value: Any) -> list[str]:
    match value:
        case dict():
            return [text for each in value.values() for text in _texts(each)]
        case list():
            return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


def metrics(stack: Synthesized) -> int:
    """Metrics of all alarms; AWS bills each."""
    alarms = [r["Properties"] for r in stack.of_type("AWS::CloudWatch::Alarm").values()]
    named = (len([m for m in a.get("Metrics", [a]) if "Expression" not in m]) for a in alarms)
    # A query names none, and finds at least one.
    return sum(max(1, count) for count in named)


@pytest.mark.parametrize("form", ["plain", "production", "ipv6"])
def test_synthesis_says_what_each_setting_of_the_size_costs(
    form: str, request: pytest.FixtureRequest
) -> None:
    stack: Synthesized = request.getfixturevalue(form)
    text = told(stack)
    assert f"alarms on {metrics(stack)} metrics" in text
    assert "list prices of us-east-1" in text
    size = "production" if form == "production" else "small"
    assert f"size {size}: about " in text
    for name in VALUES[Size(size)]:
        assert name in text, name


def total(settings: Settings, alarm_metrics: int) -> str:
    lines = prices.idle(settings, alarm_metrics)
    return f"{sum((each.usd for each in lines), Decimal(0)):.2f}"


def test_costs_page_has_what_synthesis_says(
    plain: Synthesized, ipv6: Synthesized, production: Synthesized
) -> None:
    sizes = {
        "small": (Settings(), metrics(plain)),
        "small, `nat=ipv6`": (Settings.of({"nat": "ipv6"}), metrics(ipv6)),
        "production": (
            Settings.of({"size": "production", "alarms_email": MAIL}),
            metrics(production),
        ),
    }
    for name, (settings, alarm_metrics) in sizes.items():
        assert f"| **{name}** | **{total(settings, alarm_metrics)}** |" in COSTS, name


def test_cluster_of_the_deployers_is_not_in_the_price() -> None:
    with_, without_ = (prices.idle(Settings(), 1, makes_database=made) for made in (True, False))
    left = [str(each) for each in with_ if each not in without_]
    assert [line.partition(":")[0] for line in left] == [
        "database_min_acu=0",
        "1 GiB of storage",
        "the secret of its owner",
    ]


def test_choice_that_wins_is_in_the_price_and_not_among_what_the_size_sets() -> None:
    settings = sized(database_readers=0, api_rate=10, database_backup=timedelta(days=3))
    text = prices.report(settings, prices.idle(settings, 1))
    assert "database_readers" not in text
    assert "api_rate" not in text
    assert "database_backup=3 days" in text
    assert "api_burst=400" in text


def test_host_name_that_is_given_twice_is_refused() -> None:
    from aws_cdk import App, Stack

    from layover.desk.cdk.constructs.domain import domain_of
    from layover.desk.cdk.props import Domain

    settings = Settings.of({"domain": "a.example", "domain_zone": "Z0123456789"})
    given = Domain("b.example", certificate=None)  # type: ignore[arg-type]
    with pytest.raises(InvalidProps, match="given twice"):
        domain_of(Stack(App(), "shop"), given, settings)
