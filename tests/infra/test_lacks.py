"""What agents need and a stage lacks: each is named with the line that mends it, and nothing else is."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from layover.desk.cdk.agents_code import AgentsCode
from layover.desk.cdk.distributions import missing_here, supply_of
from layover.desk.cdk.lacks import Failure, Lack, lacks_of
from layover.desk.cdk.locks import head
from layover.desk.cdk.settings import Settings
from layover.desk.cli.deploy.stage_check import lacks
from layover.desk.shipped import SHIPPED
from layover.project import FILE, Project, read

APP = """
from aws_cdk import App, Stack
from layover.cdk import Layover, Settings

app = App()
settings = Settings.from_context(app.node.get_all_context())
Layover(Stack(app, settings.prefix), "Agents", agents="agents", settings=settings)
"""
TOML = 'name = "shop"\n[stages.dev]\n'


@dataclass(frozen=True)
class Made:
    """A project that is there."""

    project: Project

    def lacks(self, *failures: Failure, env: tuple[str, ...] = ()) -> list[Lack]:
        settings = Settings.from_context({"stage": "dev"}, root=self.project.root)
        return lacks_of(self.project, settings, dot_env=env, failures=failures)

    def only(self, *failures: Failure, env: tuple[str, ...] = ()) -> Lack:
        (lack,) = self.lacks(*failures, env=env)
        return lack


def made(root: Path, code: str, files: Mapping[str, str] | None = None) -> Made:
    """A project with this code of agents, and further files."""
    texts = {FILE: TOML, "infra/app.py": APP, "agents/__init__.py": dedent(code), **(files or {})}
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Made(read(root))


# What is lacking


def test_secret_without_a_place_is_named_with_setting_and_command(tmp_path: Path) -> None:
    lack = made(tmp_path, 'from layover import secret\nKEY = secret("SHOP_KEY")\n').only()
    assert lack.fails
    assert lack.words == (
        'lacks SHOP_KEY: agents/__init__.py:2 has secret("SHOP_KEY"): write tool_secrets = '
        '{ SHOP_KEY = "/shop/dev/shop-key" } under [stages.dev] of layover.toml, and put it there: '
        "aws ssm put-parameter --type SecureString --name /shop/dev/shop-key --value ..."
    )


def test_client_secret_of_a_connection_is_named(tmp_path: Path) -> None:
    code = """
    import layover
    NAME = "BANK_SECRET"
    bank = layover.Connection("bank", client_secret=layover.secret(NAME))
    """
    lack = made(tmp_path, code).only()
    assert (lack.name, lack.fails) == ("BANK_SECRET", True)


def test_variable_of_a_tool_is_named_with_the_line_of_the_stages_file(tmp_path: Path) -> None:
    code = 'import os\ndef tool():\n    return os.environ["SHOP_URL"]\n'
    lack = made(tmp_path, code, {"infra/stages/dev.json": "{}"}).only()
    assert lack.fails
    assert lack.words == (
        'lacks SHOP_URL: agents/__init__.py:3 reads os.environ["SHOP_URL"]: write "tool_env": '
        '{ "SHOP_URL": "..." } in infra/stages/dev.json'
    )


def test_line_is_one_more_entry_where_the_setting_has_some(tmp_path: Path) -> None:
    code = 'import os\ndef tool():\n    return os.environ["SHOP_URL"]\n'
    lack = made(tmp_path, code, {FILE: TOML + 'tool_env = { A = "1" }\n'}).only()
    assert lack.todo == 'add SHOP_URL = "..." to tool_env under [stages.dev] of layover.toml'


AT_IMPORT = 'from os import environ\nURL = environ["SHOP_URL"]\n'


def test_variable_read_at_import_fails_where_only_tools_have_it(tmp_path: Path) -> None:
    """The API imports the agents and runs no tool."""
    given = 'tool_secrets = { SHOP_URL = "/shop/url" }\n'
    lack = made(tmp_path, AT_IMPORT, {FILE: TOML + given}).only()
    assert lack.fails
    assert "when it is imported, which all functions do" in lack.text
    assert lack.todo == "read it in the tool that uses it"


def test_variable_read_at_import_is_one_of_each_function_that_imports_the_agents(
    tmp_path: Path,
) -> None:
    lack = made(tmp_path / "a", AT_IMPORT).only()
    assert (lack.fails, lack.todo.partition(" {")[0]) == (True, "write tool_env =")
    given = {FILE: TOML + 'tool_env = { SHOP_URL = "https://a.example" }\n'}
    assert made(tmp_path / "b", AT_IMPORT, given).lacks() == []


def test_variable_that_may_be_missing_only_may_be_lacking(tmp_path: Path) -> None:
    code = 'import os\ndef tool():\n    return call(os.getenv("SHOP_URL"))\n'
    lack = made(tmp_path, code).only()
    assert lack.words.startswith("may lack SHOP_URL: agents/__init__.py:3 reads os.getenv")
    assert not lack.fails


def test_variable_that_is_read_on_a_condition_only_may_be_lacking(tmp_path: Path) -> None:
    code = 'import os\ndef tool(far):\n    if far:\n        return os.environ["SHOP_URL"]\n'
    lack = made(tmp_path, code).only()
    assert (lack.certain, lack.fails) == (False, False)


def test_key_in_a_plain_variable_is_mended_by_a_secret(tmp_path: Path) -> None:
    lack = made(tmp_path, 'import os\ndef tool():\n    return os.environ["SHOP_TOKEN"]\n').only()
    assert lack.todo.startswith('read it by secret("SHOP_TOKEN"), and write tool_secrets = {')


def test_package_of_tool_servers_is_named(tmp_path: Path) -> None:
    code = 'from layover import mcp\nissues = mcp("https://mcp.example.com/mcp")\n'
    lack = made(tmp_path, code).only()
    assert (lack.name, lack.fails) == ("mcp", True)
    assert lack.todo.startswith("add the line mcp")
    assert lack.todo.endswith(" to agents/requirements.txt")


def test_package_of_a_model_is_named(tmp_path: Path) -> None:
    code = "from layover.models import OpenAIModel\nmodel = OpenAIModel(client, 'gpt')\n"
    assert made(tmp_path, code).only().name == "openai"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"])
def test_server_of_this_machine_is_named(host: str, tmp_path: Path) -> None:
    code = f'from layover import mcp\nURL = "http://{host}:9000/mcp"\nmcp(URL, private=True)\n'
    lack = made(tmp_path, code, {"agents/requirements.txt": "mcp\n"}).only()
    assert (lack.name, lack.fails) == (host.strip("[]"), True)
    assert "on AWS that is the function itself" in lack.text


@pytest.mark.parametrize("host", ["10.0.0.8", "tools", "tools.corp"])
def test_server_in_a_network_may_be_out_of_reach_without_a_vpc(host: str, tmp_path: Path) -> None:
    code = f'from layover import mcp\nmcp("http://{host}/mcp", private=True)\n'
    files = {"agents/requirements.txt": "mcp\n"}
    lack = made(tmp_path / "a", code, files).only()
    assert (lack.name, lack.certain) == (host, False)
    with_vpc = APP.replace("settings=settings)", "settings=settings, vpc=vpc)")
    assert made(tmp_path / "b", code, {**files, "infra/app.py": with_vpc}).lacks() == []


def test_package_that_no_requirement_brings_is_named_with_its_line(tmp_path: Path) -> None:
    """It is installed here, so its distribution is known."""
    lack = made(tmp_path, "import yaml\n").only()
    assert lack.words == (
        "lacks pyyaml: agents/__init__.py:1 imports yaml: add the line pyyaml to "
        "agents/requirements.txt"
    )
    assert lack.fails


def test_package_that_nobody_knows_here_only_may_be_lacking(tmp_path: Path) -> None:
    lack = made(tmp_path, "import no_such_package_anywhere\n").only()
    assert lack.words.startswith("may lack no_such_package_anywhere: ")


def test_package_that_a_tool_imports_stops_no_deployment(tmp_path: Path) -> None:
    lack = made(tmp_path, "def tool():\n    import yaml\n").only()
    assert (lack.certain, lack.fails) == (True, False)


def test_module_next_to_the_agents_is_not_taken_along(tmp_path: Path) -> None:
    files = {"shop_lib/__init__.py": ""}
    lack = made(tmp_path, "import shop_lib\n", files).only()
    assert lack.fails
    assert 'write packages=["shop_lib"] in Layover(...) of infra/app.py' in lack.todo


def test_need_of_a_module_that_agents_import_is_named_with_its_place(tmp_path: Path) -> None:
    files = {
        "agents/tools/__init__.py": "from . import shop\n",
        "agents/tools/shop.py": 'from ..keys import KEY\nfrom layover import secret\nsecret("A")\n',
        "agents/keys.py": 'from layover import secret\n\nKEY = secret("B")\n',
        "agents/unused.py": 'from layover import secret\nsecret("C")\n',
        "agents/test_shop.py": 'import os\nos.environ["D"]\n',
    }
    found = made(tmp_path, "from agents.tools import shop\n", files).lacks()
    assert {(each.name, each.text.partition(" ")[0]) for each in found} == {
        ("A", "agents/tools/shop.py:3"),
        ("B", "agents/keys.py:3"),
    }


def test_need_of_a_module_that_only_code_finds_only_may_be_lacking(tmp_path: Path) -> None:
    code = "import importlib\nimportlib.import_module('agents.more')\n"
    files = {"agents/more.py": 'from layover import secret\nsecret("A")\n'}
    lack = made(tmp_path, code, files).only()
    assert (lack.name, lack.fails) == ("A", False)


def test_variable_of_the_env_file_that_the_stage_lacks_is_named_without_its_value(
    tmp_path: Path,
) -> None:
    own = made(tmp_path, "")
    assert own.only(env=("SHOP_MODE",)).words == (
        "may lack SHOP_MODE: .env has SHOP_MODE, which only this machine reads: write tool_env = "
        '{ SHOP_MODE = "..." } under [stages.dev] of layover.toml'
    )
    lack = own.only(env=("LAYOVER_MODEL",))
    assert lack.todo.startswith('write model = "..." under [stages.dev]')


def test_key_of_a_further_provider_is_named_where_a_model_of_it_is(tmp_path: Path) -> None:
    env = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
    assert made(tmp_path / "a", "").lacks(env=env) == []
    lack = made(tmp_path / "b", 'MODEL = "anthropic/claude"\n').only(env=env)
    assert lack.todo.startswith("write providers.anthropic = { base_url = ")


def test_receiver_of_traces_needs_its_packages(tmp_path: Path) -> None:
    toml = TOML + 'otlp_endpoint = "https://traces.example"\n'
    lack = made(tmp_path, "", {FILE: toml}).only()
    assert lack.fails
    assert "add to agents/requirements.txt: opentelemetry-proto" in lack.todo


@pytest.mark.parametrize("stage", ["prod", "production", "live"])
def test_stage_for_users_without_an_address_of_alarms_is_named(stage: str, tmp_path: Path) -> None:
    own = made(tmp_path, "", {FILE: f"[stages.{stage}]\n"})
    (lack,) = lacks(own.project, {"stage": stage})
    assert lack.name == "alarms_email"
    assert not lack.fails
    (tmp_path / FILE).write_text(f'[stages.{stage}]\nalarms_email = "ann@example.com"\n')
    assert not lacks(read(tmp_path), {"stage": stage})


@pytest.mark.parametrize("given", [True, False])
def test_lock_that_does_not_fit_is_named_and_fails_where_the_build_reads_it(
    given: bool, tmp_path: Path
) -> None:
    files = {"agents/requirements.txt": "pydantic\n", "requirements.txt": "layover\n"}
    own = made(tmp_path, "", {**files, "requirements.lock": "pydantic==2 --hash=sha256:aa\n"})
    (tmp_path / "requirements.lock").write_text(head(tmp_path / "requirements.txt"))
    if given:
        (tmp_path / "agents" / "requirements.lock").write_text("pydantic==2 --hash=sha256:aa\n")
    lack = own.only()
    assert lack.fails == given
    why = "does not tell what it was made of" if given else "is missing"
    assert lack.words == (
        f"lacks a lock of agents/requirements.txt: requirements.lock {why}: run `layover lock`, and commit "
        "what it writes"
    )


# An import of the agents


class Imports:
    """Imports agents that read variables, each only once the one before is there."""

    def __init__(self, *names: str, end: str | None = None) -> None:
        self._names, self._end = names, end

    def __call__(self, variables: Mapping[str, str]) -> str | None:
        missing = next((name for name in self._names if name not in variables), None)
        return f"agents/a.py:3: KeyError: '{missing}'" if missing else self._end


def test_variables_that_only_an_import_tells_are_named_one_after_the_other(tmp_path: Path) -> None:
    own = made(tmp_path, "from shop_config import URL\n", {"infra/app.py": APP + '"shop_config"\n'})
    found = lacks(own.project, {"stage": "dev"}, Imports("SHOP_URL", "SHOP_ZONE"))
    assert [(each.name, each.fails) for each in found] == [("SHOP_URL", True), ("SHOP_ZONE", True)]
    assert "agents/a.py:3: KeyError: 'SHOP_URL'" in found[0].text


def test_import_is_tried_with_what_every_function_that_imports_the_agents_has(
    tmp_path: Path,
) -> None:
    given = 'tool_env = { SHOP_URL = "a" }\ntool_secrets = { SHOP_ZONE = "/b" }\n'
    own = made(tmp_path, "", {FILE: TOML + given})
    (lack,) = lacks(own.project, {"stage": "dev"}, Imports("SHOP_URL", "SHOP_ZONE"))
    assert (lack.name, lack.todo[:14]) == ("SHOP_ZONE", "read variables")


def test_key_of_something_else_is_taken_for_no_variable(tmp_path: Path) -> None:
    def load(_: Mapping[str, str]) -> str:
        return "agents/a.py:3: KeyError: 'lamp'"

    assert lacks(made(tmp_path, "").project, {"stage": "dev"}, load) == []


def test_import_that_fails_only_with_the_variables_of_the_stage_is_told(tmp_path: Path) -> None:
    def load(variables: Mapping[str, str]) -> str | None:
        return None if "SHOP_URL" in variables else "agents/a.py:3: ValidationError: shop_url"

    own = made(tmp_path, "", {".env": "SHOP_URL=https://a.example\n"})
    first, second = lacks(own.project, {"stage": "dev"}, load)
    assert (first.name, first.fails) == ("agents", True)
    assert "ValidationError: shop_url" in first.text
    assert (second.name, second.certain) == ("SHOP_URL", False)


def test_import_that_fails_here_as_well_is_left_to_whoever_runs_it(tmp_path: Path) -> None:
    own = made(tmp_path, "", {".env": "A=1\n", "infra/app.py": APP + '"A"\n'})
    load = Imports(end="agents/a.py:1: ModuleNotFoundError: No module named 'x'")
    assert lacks(own.project, {"stage": "dev"}, load) == []


# No false alarms


@pytest.mark.parametrize(
    "code",
    [
        'import os\nos.getenv("A", "b")',
        'import os\nos.environ.get("A", "b")',
        'import os\nos.getenv("A") or "b"',
        'import os\nif os.getenv("A"):\n    pass',
        'import os\nx = 1 if os.getenv("A") == "1" else 2',
        'import os\nx = os.getenv("A") is not None',
        'import os\nos.environ["A"] = "b"\nos.environ["A"]',
        'import os\nos.environ.setdefault("A", "b")\nos.environ["A"]',
        'import os\ntry:\n    os.environ["A"]\nexcept KeyError:\n    pass',
        'import os\nfrom contextlib import suppress\nwith suppress(KeyError):\n    os.environ["A"]',
        'import os\nos.environ["AWS_REGION"], os.environ["LAYOVER_TABLE"], os.environ["HOME"]',
        "import os\ndef f(name):\n    return os.environ[name]",
        'import os\nif __name__ == "__main__":\n    os.environ["A"]',
        'def secret(name): ...\nsecret("A")',
        "try:\n    import yaml\nexcept ImportError:\n    yaml = None",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import yaml",
        "import boto3, botocore, pydantic, json, layover\nfrom dateutil import parser",
        "from . import shop\nimport agents.shop",
        'from layover import mcp\ndef make(url):\n    return url\nother = make("http://localhost")',
    ],
)
def test_what_is_no_need_is_not_named(code: str, tmp_path: Path) -> None:
    assert made(tmp_path, code, {"agents/shop.py": ""}).lacks() == []


def test_handler_that_raises_again_makes_nothing_harmless(tmp_path: Path) -> None:
    code = """
    import os
    def tool():
        try:
            return os.environ["SHOP_URL"]
        except KeyError:
            raise SystemExit("set SHOP_URL") from None
    """
    assert made(tmp_path, code).only().name == "SHOP_URL"


@pytest.mark.parametrize(
    "files",
    [
        {FILE: TOML + 'tool_env = { A = "1" }\ntool_secrets = { B = "/b" }\n'},
        {FILE: TOML + 'tool_env = { A = "1", B = "2" }\n'},
        {"infra/app.py": APP + 'SECRETS = {"A": "/a", "B": "/b"}\n'},
        {"infra/stages/dev.json": '{"tool_secrets": {"A": "/a", "B": "/b"}}'},
    ],
)
def test_what_the_stage_or_the_app_gives_is_not_named(
    files: Mapping[str, str], tmp_path: Path
) -> None:
    code = """
    import os
    from layover import secret
    KEY = secret("B")
    def tool():
        return os.environ["A"]
    """
    assert made(tmp_path, code, files).lacks() == []


@pytest.mark.parametrize(
    "lines",
    [
        "PyYAML==6.0.2",
        "pyyaml>=6 ; python_version > '3'",
        "-r more.txt",
        "layover[local]",
        "moto[s3]",
    ],
)
def test_requirements_bring_what_they_need_themselves(lines: str, tmp_path: Path) -> None:
    files = {"agents/requirements.txt": f"# ours\n{lines}\n", "agents/more.txt": "pyyaml\n"}
    assert made(tmp_path, "import yaml\n", files).lacks() == []


def test_requirement_that_is_not_installed_here_may_bring_anything(tmp_path: Path) -> None:
    files = {"agents/requirements.txt": "no-such-distribution\n"}
    lack = made(tmp_path, "import yaml\n", files).only()
    assert (lack.certain, lack.fails) == (False, False)


def test_settings_that_the_app_may_add_to_are_left_to_it(tmp_path: Path) -> None:
    toml = TOML + "sign_up = true\n"
    own = made(tmp_path, "", {FILE: toml})
    with pytest.raises(ValueError, match="sign_up needs daily_tokens"):
        lacks(own.project, {"stage": "dev"})
    in_code = APP.replace("context())", 'context(), {"daily_tokens": 9})')
    assert not lacks(made(tmp_path, "", {FILE: toml, "infra/app.py": in_code}).project, {})


# The code, and what is installed


def test_code_is_read_as_far_as_the_agents_import_it(tmp_path: Path) -> None:
    made(
        tmp_path,
        "",
        {
            "shop/__init__.py": "",
            "shop/agents.py": "def f():\n    import shop.late\n",
            "shop/late.py": "",
        },
    )
    code = AgentsCode("shop.agents", (tmp_path,))
    assert {file.name for file in code.files} == {"__init__.py", "agents.py", "late.py"}
    assert {file.name for file in code.imported} == {"__init__.py", "agents.py"}
    assert all(isinstance(piece.node, ast.AST) for piece in code.pieces)


def test_layer_has_what_its_lock_has() -> None:
    supply = supply_of([], SHIPPED.lock)
    assert (supply.has("boto3"), supply.has("dateutil"), supply.has("yaml")) == (
        True,
        True,
        False,
    )
    assert supply.has("no_such_package_anywhere") is None


def test_what_an_environment_lacks_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(
        "# ours\npyyaml\nno-such-one>=2\npyyaml==0.0.1\n./own\nother ; sys_platform == 'x'\n"
    )
    assert missing_here(file) == ["no-such-one>=2", "pyyaml==0.0.1"]
