"""The synthesized templates. Violations of cdk-nag's and the CDK's own rules are errors of the synthesis."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from layover.adapters.journal.items.schema import TABLE, TIME_TO_LIVE
from layover.desk.cdk.calls import CALLS
from layover.desk.cdk.settings import FUNCTIONS
from layover.desk.cdk.variables import KEY, PROVIDERS, READS, WINDOWS
from layover.values.deployment.environment import Environment
from support.aws.templates import Synthesized, listed

ROOT = Path(__file__).parents[2]
DEFINITION = ROOT / "infra" / "run.asl.json"
NAMES = sorted(FUNCTIONS)
WIRED = {field.alias for field in Environment.model_fields.values()}
WRAPPER = "AWS_LAMBDA_EXEC_WRAPPER"
"""Lambda's own: what is started instead of its runtime client."""


@pytest.fixture(params=["vpc", "plain"])
def stack(request: pytest.FixtureRequest) -> Synthesized:
    """Everything switched on, and the defaults."""
    found: Synthesized = request.getfixturevalue(request.param)
    return found


def wildcards(statement: dict[str, Any]) -> bool:
    """Return whether the statement covers all resources."""
    resources = statement["Resource"]
    return resources == "*" or "*" in resources


def test_no_rule_is_broken_silently(stack: Synthesized) -> None:
    assert "ERROR" not in stack.said
    assert "WARNING" not in stack.said


def test_cfn_lint_has_nothing_to_say(vpc: Synthesized) -> None:
    assert vpc.linted() == []


@pytest.mark.form
def test_cfn_lint_has_nothing_to_say_of_the_defaults(plain: Synthesized) -> None:
    assert plain.linted() == []


def test_nothing_in_the_template_is_a_secret(stack: Synthesized) -> None:
    text = json.dumps(stack.template)
    assert "sk-" not in text
    assert not re.search(r"postgresql://[^@/\"]*:[^@/\"]*@", text)


def test_every_folder_with_a_handler_is_a_function(stack: Synthesized) -> None:
    folders = {path.parent.name for path in (ROOT / "functions").glob("*/handler.py")}
    assert stack.functions().keys() == folders == FUNCTIONS.keys()


@pytest.mark.parametrize("name", NAMES)
def test_function_gets_only_variables_that_wiring_reads(stack: Synthesized, name: str) -> None:
    assert set(stack.functions()[name]["Environment"]["Variables"]) - {WRAPPER} <= WIRED


@pytest.mark.parametrize("name", NAMES)
def test_function_runs_as_it_is_built(stack: Synthesized, name: str) -> None:
    function = stack.functions()[name]
    assert function["Runtime"] == "python3.13"
    assert function["Architectures"] == ["arm64"]
    assert function["TracingConfig"] == {"Mode": "Active"}
    assert len(function["Layers"]) == 1
    assert function["Timeout"] == FUNCTIONS[name].timeout.total_seconds()


def test_all_functions_share_one_asset(stack: Synthesized) -> None:
    assert len({json.dumps(f["Code"]) for f in stack.functions().values()}) == 1


def test_every_function_has_a_role_of_its_own(stack: Synthesized) -> None:
    roles = [json.dumps(f["Role"]) for f in stack.functions().values()]
    assert len(set(roles)) == len(roles)


def test_services_work_for_this_account_alone(stack: Synthesized) -> None:
    ours = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    found = stack.of_type("AWS::IAM::Role").items()
    trusts = {name: r["Properties"]["AssumeRolePolicyDocument"]["Statement"] for name, r in found}
    # EC2 knows no such condition; what empties a bucket is the CDK's own.
    mine = {n: t for n, t in trusts.items() if n.startswith(("Functions", "Workflow"))}
    assert len(mine) == len(FUNCTIONS) + 1
    assert all(statement["Condition"] == ours for t in mine.values() for statement in t)


def test_no_role_has_a_policy_that_aws_may_change(vpc: Synthesized) -> None:
    roles = vpc.of_type("AWS::IAM::Role").items()
    managed = {name for name, role in roles if role["Properties"].get("ManagedPolicyArns")}
    # What empties the bucket is the CDK's own function.
    assert all("S3AutoDeleteObjects" in name for name in managed)


@pytest.mark.parametrize("name", NAMES)
def test_role_allows_the_calls_of_its_function_and_no_more(stack: Synthesized, name: str) -> None:
    services = ("dynamodb", "s3", "states", "events", "lambda", "execute-api")
    allowed = {
        action
        for statement in stack.statements(name)
        for action in listed(statement["Action"])
        if statement["Effect"] == "Allow" and action.split(":")[0] in services
    }
    assert allowed == CALLS[name].actions


@pytest.mark.parametrize("name", NAMES)
def test_role_names_its_resources(stack: Synthesized, name: str) -> None:
    free = {a for s in stack.statements(name) if wildcards(s) for a in listed(s["Action"])}
    assert all(action.startswith(("xray:", "ec2:")) for action in free)


@pytest.mark.parametrize("name", NAMES)
def test_code_of_a_function_touches_no_network_interface(stack: Synthesized, name: str) -> None:
    """Lambda needs the rights to place the function. The function's own code, tools included, has none."""
    places = [s for s in stack.statements(name) if "ec2:CreateNetworkInterface" in s["Action"]]
    if not FUNCTIONS[name].postgres:
        assert places == []
        return
    allow, deny = sorted(places, key=lambda statement: str(statement["Effect"]))
    assert (allow["Effect"], deny["Effect"]) == ("Allow", "Deny")
    given = {action for action in allow["Action"] if action.startswith("ec2:")}
    assert given <= {*deny["Action"]}
    assert "ec2:DetachNetworkInterface" in deny["Action"]
    assert deny["Resource"] == "*"
    (arns,) = (condition["lambda:SourceFunctionArn"] for condition in deny["Condition"].values())
    assert [*deny["Condition"]] == ["ArnLike"]
    own = f":function:layover-{stack_stage(stack)}-{name}"
    # Of the function, and of its versions.
    assert [json.dumps(arn).partition(own)[2] for arn in arns] == ['"]]}', ':*"]]}']


def stack_stage(stack: Synthesized) -> str:
    """The stage, as functions' names have it."""
    return str(stack.functions()["api"]["FunctionName"]).split("-")[1]


def test_database_has_the_minor_version_that_the_template_names(vpc: Synthesized) -> None:
    """RDS would upgrade it in its window, and refuse a later deployment that asks for the older version."""
    cluster = vpc.one("AWS::RDS::DBCluster")
    assert cluster["EngineVersion"].count(".") == 1
    for instance in vpc.of_type("AWS::RDS::DBInstance").values():
        assert instance["Properties"]["AutoMinorVersionUpgrade"] is False


@pytest.mark.parametrize("name", NAMES)
def test_function_signs_in_as_its_own_role(stack: Synthesized, name: str) -> None:
    arns = [
        json.dumps(s["Resource"]) for s in stack.statements(name) if "rds-db" in str(s["Action"])
    ]
    variables = stack.functions()[name]["Environment"]["Variables"]
    if "LAYOVER_DATABASE_ADMIN_SECRET" in variables or not FUNCTIONS[name].postgres:
        assert arns == []
    else:
        (arn,) = arns
        assert "/layover_runtime" in arn
        assert variables["LAYOVER_DATABASE_AUTH"] == "iam"


@pytest.mark.parametrize("name", NAMES)
def test_database_is_asked_over_checked_tls(stack: Synthesized, name: str) -> None:
    urls = {
        key: json.dumps(value)
        for key, value in stack.functions()[name]["Environment"]["Variables"].items()
        if key.endswith("_URL") and "DATABASE" in key
    }
    assert len(urls) == FUNCTIONS[name].postgres
    assert all("sslmode=verify-full&sslrootcert=/opt/" in url for url in urls.values())


def test_only_turn_and_what_answers_requests_wait_for_a_sleeping_database(
    stack: Synthesized,
) -> None:
    waiting = {
        name: f["Environment"]["Variables"]["LAYOVER_DATABASE_WAKING_S"]
        for name, f in stack.functions().items()
        if "LAYOVER_DATABASE_WAKING_S" in f["Environment"]["Variables"]
    }
    assert waiting == {"api": "20", "streams": "20", "turn": "90"}


def test_only_what_asks_a_model_may_read_its_key(stack: Synthesized) -> None:
    readers = {n for n in NAMES if "ssm:GetParameter" in json.dumps(stack.statements(n))}
    assert readers == {name for name in NAMES if KEY in READS[name]}


def test_keys_of_further_providers_are_read_by_what_asks_models(vpc: Synthesized) -> None:
    readers = {n for n in NAMES if "parameter/shop/deepseek" in json.dumps(vpc.statements(n))}
    told = {n for n, f in vpc.functions().items() if PROVIDERS in f["Environment"]["Variables"]}
    assert readers == told == {name for name in NAMES if KEY in READS[name]}


def test_windows_of_models_reach_what_makes_prompts(vpc: Synthesized) -> None:
    told = {
        name: json.loads(variables[WINDOWS])
        for name, f in vpc.functions().items()
        if WINDOWS in (variables := f["Environment"]["Variables"])
    }
    assert told == {name: {"deepseek/chat": 64_000} for name in ("api", "turn", "compact")}


def test_no_function_runs_before_the_schema_is_there(stack: Synthesized) -> None:
    (schema,) = stack.of_type("Custom::LayoverSchema")
    for resource in stack.of_type("AWS::Lambda::Function").values():
        handler = resource["Properties"]["Handler"]
        if handler.startswith("functions.") and handler != "functions.migrate.handler.handler":
            assert schema in resource["DependsOn"]


def test_schema_is_migrated_again_when_it_changes(stack: Synthesized) -> None:
    schema = stack.one("Custom::LayoverSchema")
    assert re.fullmatch("[0-9a-f]{64}", schema["Schema"])
    assert int(schema["ServiceTimeout"]) > FUNCTIONS["migrate"].timeout.total_seconds()


def test_failed_migration_is_not_repeated_by_lambda(stack: Synthesized) -> None:
    found = stack.of_type("AWS::Lambda::EventInvokeConfig")
    ((name, config),) = found.items()
    handlers = stack.of_type("AWS::Lambda::Function")
    of = handlers[config["Properties"]["FunctionName"]["Ref"]]["Properties"]["Handler"]
    assert (of, config["Properties"]["MaximumRetryAttempts"]) == (
        "functions.migrate.handler.handler",
        0,
    )
    (schema,) = stack.of_type("Custom::LayoverSchema").values()
    assert name in schema["DependsOn"]


def test_only_what_sends_to_sockets_may_invoke_itself_for_long(stack: Synthesized) -> None:
    allowed = [n for n, f in stack.functions().items() if f.get("RecursiveLoop") == "Allow"]
    assert allowed == ["sockets"]


def test_machine_is_the_file_that_runs_locally(stack: Synthesized) -> None:
    machine = stack.one("AWS::StepFunctions::StateMachine")
    key = machine["DefinitionS3Location"]["Key"]
    assert (stack.folder / f"asset.{key}").read_bytes() == DEFINITION.read_bytes()


def test_machine_gets_all_it_asks_for(stack: Synthesized) -> None:
    asked = set(re.findall(r"\$\{(\w+)\}", DEFINITION.read_text()))
    machine = stack.one("AWS::StepFunctions::StateMachine")
    assert machine["DefinitionSubstitutions"].keys() == asked
    for name, value in machine["DefinitionSubstitutions"].items():
        folder = name.removesuffix("FunctionArn").lower()
        assert stack.function_behind(value["Ref"]) == folder


def test_executions_are_logged_without_what_they_carry(stack: Synthesized) -> None:
    machine = stack.one("AWS::StepFunctions::StateMachine")
    logged = machine["LoggingConfiguration"]
    assert logged["IncludeExecutionData"] is False
    assert machine["TracingConfiguration"] == {"Enabled": True}


def test_task_outlives_its_function_by_a_minute(stack: Synthesized) -> None:
    """Else a retry overlaps a live one. States are named by their functions' limits."""
    states = re.findall(
        r'"FunctionName": "\$\{(\w+)FunctionArn\}".*?"TimeoutSeconds": (\d+)',
        DEFINITION.read_text(),
        re.DOTALL,
    )
    assert len(states) >= 5
    for function, seconds in states:
        limit = stack.functions()[function.lower()]["Timeout"]
        assert int(seconds) >= limit + 60


def test_every_log_is_kept_for_thirty_days(stack: Synthesized) -> None:
    groups = [r["Properties"] for r in stack.of_type("AWS::Logs::LogGroup").values()]
    assert {g["RetentionInDays"] for g in groups} == {30}
    assert len(groups) >= len(FUNCTIONS) + 1


def test_table_is_the_one_of_the_adapter(stack: Synthesized) -> None:
    table = stack.one("AWS::DynamoDB::Table")
    assert table["KeySchema"] == TABLE["KeySchema"]
    assert by_name(table["AttributeDefinitions"]) == by_name(TABLE["AttributeDefinitions"])
    assert table["GlobalSecondaryIndexes"] == TABLE["GlobalSecondaryIndexes"]
    assert table["BillingMode"] == TABLE["BillingMode"]
    assert table["TimeToLiveSpecification"] == TIME_TO_LIVE
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def by_name(attributes: list[dict[str, str]]) -> dict[str, str]:
    """Attributes in no order."""
    return {a["AttributeName"]: a["AttributeType"] for a in attributes}


def test_bucket_is_private_and_encrypted(stack: Synthesized) -> None:
    bucket = stack.one("AWS::S3::Bucket")
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert "BucketEncryption" in bucket
    policy = json.dumps(stack.one("AWS::S3::BucketPolicy"))
    assert "aws:SecureTransport" in policy


def test_pages_of_the_api_and_of_named_origins_put_and_read_files(vpc: Synthesized) -> None:
    (rule,) = vpc.one("AWS::S3::Bucket")["CorsConfiguration"]["CorsRules"]
    assert rule["AllowedMethods"] == ["PUT", "GET"]
    own, *others = rule["AllowedOrigins"]
    assert "ApiEndpoint" in json.dumps(own)
    assert others == ["https://a.example", "https://b.example"]


def test_no_other_page_puts_or_reads_unless_origins_are_named(plain: Synthesized) -> None:
    (rule,) = plain.one("AWS::S3::Bucket")["CorsConfiguration"]["CorsRules"]
    (own,) = rule["AllowedOrigins"]
    assert "ApiEndpoint" in json.dumps(own)


def test_nothing_that_costs_outlives_a_stack_that_is_not_to_be_retained(vpc: Synthesized) -> None:
    kept = {
        name: resource.get("DeletionPolicy")
        for name, resource in vpc.template["Resources"].items()
        if resource.get("DeletionPolicy", "Delete") != "Delete"
        # Lambda deletes the versions of a function with it.
        and resource["Type"] != "AWS::Lambda::Version"
    }
    assert kept == {}
    # Where nothing is said, a cluster leaves a snapshot.
    (cluster,) = vpc.of_type("AWS::RDS::DBCluster").values()
    assert cluster["DeletionPolicy"] == "Delete"
    assert vpc.one("AWS::RDS::DBCluster")["DeleteAutomatedBackups"] is True


def test_data_outlives_the_stack_by_default_unless_it_never_came_to_be(
    plain: Synthesized,
) -> None:
    """A first deployment that fails leaves nothing behind that the next one would not find again."""
    for kind in ("AWS::DynamoDB::Table", "AWS::S3::Bucket"):
        (resource,) = plain.of_type(kind).values()
        assert resource["DeletionPolicy"] == "RetainExceptOnCreate"
        assert resource["UpdateReplacePolicy"] == "Retain"


def test_what_is_kept_is_protected_against_deletion(gateway: Synthesized) -> None:
    assert gateway.one("AWS::DynamoDB::Table")["DeletionProtectionEnabled"] is True
    assert gateway.one("AWS::Cognito::UserPool")["DeletionProtection"] == "ACTIVE"
    assert gateway.one("AWS::RDS::DBCluster")["DeletionProtection"] is True
    assert gateway.protected


def test_what_is_thrown_away_is_not_protected(vpc: Synthesized) -> None:
    assert not vpc.one("AWS::DynamoDB::Table").get("DeletionProtectionEnabled")
    assert vpc.one("AWS::Cognito::UserPool").get("DeletionProtection") != "ACTIVE"
    assert not vpc.one("AWS::RDS::DBCluster").get("DeletionProtection")
    assert not vpc.protected


def test_bucket_that_is_kept_keeps_its_policy(plain: Synthesized) -> None:
    (policy,) = plain.of_type("AWS::S3::BucketPolicy").values()
    assert policy["DeletionPolicy"] == "RetainExceptOnCreate"


def test_cluster_pauses_and_wants_iam(vpc: Synthesized) -> None:
    cluster = vpc.one("AWS::RDS::DBCluster")
    assert cluster["ServerlessV2ScalingConfiguration"]["MinCapacity"] == 0
    assert cluster["ServerlessV2ScalingConfiguration"]["SecondsUntilAutoPause"] == 300
    assert cluster["EnableIAMDatabaseAuthentication"] is True
    assert cluster["StorageEncrypted"] is True
    assert cluster["ManageMasterUserPassword"] is True


def test_way_out_is_https_and_the_way_in_is_the_vpc(vpc: Synthesized) -> None:
    groups = vpc.of_type("AWS::EC2::SecurityGroup").values()
    (nat,) = (g["Properties"] for g in groups if "NAT" in g["Properties"]["GroupDescription"])
    ports = {(r["FromPort"], r["ToPort"]) for r in nat["SecurityGroupEgress"]}
    assert ports == {(443, 443)}
    assert [r["CidrIp"] for r in nat["SecurityGroupIngress"]] == ["10.42.0.0/20"]


def test_way_out_is_pinned_and_recovers(vpc: Synthesized) -> None:
    assert vpc.one("AWS::EC2::Instance")["ImageId"] == "ami-0123456789abcdef0"
    done = {
        json.dumps(action)
        for alarm in vpc.of_type("AWS::CloudWatch::Alarm").values()
        for action in alarm["Properties"].get("AlarmActions", [])
    }
    assert any("ec2:recover" in action for action in done)
    assert any("ec2:reboot" in action for action in done)


def test_way_out_that_does_not_come_up_ends_the_deployment(vpc: Synthesized) -> None:
    ((name, instance),) = vpc.of_type("AWS::EC2::Instance").items()
    assert instance["CreationPolicy"]["ResourceSignal"] == {"Count": 1, "Timeout": "PT15M"}
    script = nat_script(instance)
    assert f"cfn-signal --stack layover-test --resource {name}" in script
    assert "trap exitTrap EXIT" in script
    assert script.index("trap exitTrap EXIT") < script.index("set -euo pipefail")


def test_commands_of_the_way_out_are_a_shell_script(vpc: Synthesized) -> None:
    (instance,) = vpc.of_type("AWS::EC2::Instance").values()
    script = nat_script(instance)
    assert "VPC_CIDR=10.42.0.0/20\n" in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def nat_script(instance: dict[str, Any]) -> str:
    """The user data, with the region left out."""
    parts = instance["Properties"]["UserData"]["Fn::Base64"]["Fn::Join"][1]
    return "".join(part if isinstance(part, str) else "somewhere" for part in parts)


def test_way_out_keeps_its_metadata_to_itself_and_its_system_up_to_date(vpc: Synthesized) -> None:
    (instance,) = vpc.of_type("AWS::EC2::Instance").values()
    metadata = instance["Properties"]["MetadataOptions"]
    assert metadata == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}
    script = nat_script(instance)
    assert "dnf upgrade -y --releasever=latest" in script
    assert "systemctl enable --now layover-updates.timer" in script


def test_data_leaves_by_the_endpoints_to_this_account_alone(vpc: Synthesized) -> None:
    account = {"Ref": "AWS::AccountId"}
    ours = {"aws:PrincipalAccount": account, "aws:ResourceAccount": account}
    endpoints = [r["Properties"] for r in vpc.of_type("AWS::EC2::VPCEndpoint").values()]
    assert len(endpoints) == 2
    for endpoint in endpoints:
        own, *more = endpoint["PolicyDocument"]["Statement"]
        assert own["Condition"] == {"StringEquals": ours}
        # Downloads by a link, and the migration's answer to CloudFormation.
        assert {s["Action"] for s in more} <= {"s3:GetObject", "s3:PutObject"}
        for statement in more:
            if statement["Action"] == "s3:PutObject":
                assert "cloudformation-custom-resource-response-" in json.dumps(
                    statement["Resource"]
                )


def test_updates_of_the_way_out_do_not_pass_the_functions_endpoint(vpc: Synthesized) -> None:
    routes = json.dumps(
        [r["Properties"]["RouteTableIds"] for r in vpc.of_type("AWS::EC2::VPCEndpoint").values()]
    )
    assert "functionsSubnet" in routes
    assert "publicSubnet" not in routes


def test_database_and_bucket_need_no_way_out(vpc: Synthesized) -> None:
    services = json.dumps(
        [r["Properties"]["ServiceName"] for r in vpc.of_type("AWS::EC2::VPCEndpoint").values()]
    )
    assert ".dynamodb" in services
    assert ".s3" in services


def test_sweeper_looks_every_minute(stack: Synthesized) -> None:
    assert stack.one("AWS::Events::Rule")["ScheduleExpression"] == "rate(1 minute)"
