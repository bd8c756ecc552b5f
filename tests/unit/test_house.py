"""The rules of the house, held by machine."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from layover.desk.cdk.build import LEFT_OUT

ROOT = Path(__file__).parents[2]
LAYER = ROOT / "layers" / "shared" / "python"
PACKAGE = LAYER / "layover"
FUNCTIONS = ROOT / "functions"
TESTS = ROOT / "tests"

# Where each is at home; the one-machine runner stands for AWS itself.
AT_HOME = {
    "boto3": ("adapters", "wiring.py", "desk"),
    "botocore": ("adapters", "plugins/models", "wiring.py", "desk"),
    "psycopg": ("adapters", "plugins/memory/postgres", "wiring.py", "desk"),
    "openai": ("plugins/models",),
    "opentelemetry": ("plugins/traces",),
    "mcp": ("plugins/reach/mcp",),
    "mcp_types": ("plugins/reach/mcp",),
    "pytest": ("testing",),
    "moto": ("desk",),
    "starlette": ("desk",),
}
SLOW = (
    "aws_cdk",
    "infra.app",
    "infra.stack",
    "layover.desk.cdk.construct",
    "layover.plugins.reach.mcp.session",
    "mcp",
    "openai",
    "support.aws.own_apps",
    "support.aws.synthesize",
)
"""The CDK starts a process of Node's; openai and mcp take most of a second."""
KINDS = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Import,
    ast.ImportFrom,
    ast.alias,
    ast.Attribute,
    ast.Call,
    ast.Constant,
    ast.Name,
    ast.arg,
    ast.ClassDef,
    ast.Starred,
)
QUESTION = re.compile(
    r'^ *"""(?:How|Nobody|Somebody|That|What|When|Where|Whether|Which|Who|Whoever|Whose)\b', re.M
)
PARTICIPLES = {
    "asked",
    "begun",
    "drawn",
    "found",
    "given",
    "gone",
    "held",
    "kept",
    "known",
    "made",
    "met",
    "named",
    "said",
    "seen",
    "shown",
    "spoken",
    "taken",
    "told",
    "voted",
    "wanted",
}
"""Names that do not say what they hold."""
CHANCE = {"random", "secrets", "time", "uuid"}
"""Modules whose answers no test can repeat."""
DRAWS_AND_READS = {
    "functions/api/app.py": "the default clock of the time that a request has left",
    "functions/api/call.py": "the same",
    "layers/shared/python/layover/adapters/aws/client.py": "the default clock of signatures and of their age",
    "layers/shared/python/layover/adapters/aws/services.py": "signatures have AWS's time, which nobody moves",
    "layers/shared/python/layover/adapters/aws/signature.py": "only writes a given time down",
    "layers/shared/python/layover/plugins/reach/adapters/key_file.py": "a key, and nonces that come once",
    "layers/shared/python/layover/plugins/traces/measures.py": "the default clock of measures",
    "layers/shared/python/layover/plugins/traces/otlp.py": "the default clock of a receiver's pauses",
    "layers/shared/python/layover/declare/secret.py": "the age of what a process has read",
    "layers/shared/python/layover/dice.py": "the dice",
    "layers/shared/python/layover/desk/evals/play.py": "the default clock of how long an answer took",
    "layers/shared/python/layover/ids.py": "the default clock and dice of ids",
    "layers/shared/python/layover/desk/local/aws/states/execution.py": "writes bits down as a UUID",
    "layers/shared/python/layover/desk/local/aws/states/records.py": "the default clock, and a hash",
    "layers/shared/python/layover/desk/local/aws/states/service.py": "the default clock",
    "layers/shared/python/layover/runtime_client.py": "the deadline of Lambda's own, in its time",
    "layers/shared/python/layover/testing/contracts/base.py": "owners whom no other test has",
}
"""Files that import one of them, with the reason. All others draw from `ports.Dice`, and read the time of a
`ports.Clock` or of the event loop, because a simulation repeats what these say. The list may only shrink."""
HEAVY = (
    "openai",
    "opentelemetry",
    "numpy",
    "psycopg",
    "boto3",
    "moto",
    "layover.desk.local",
    "layover.desk.cli",
)


def names_of(path: Path) -> Iterator[tuple[str, int]]:
    """Names of functions, parameters and variables with their lines. Fields of classes may be stored, so they
    keep theirs."""
    fields = {
        field.target
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    }
    for node in nodes(path):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields:
            yield node.id, node.lineno


def sources() -> list[Path]:
    """Every Python file that is shipped."""
    folders = (PACKAGE, FUNCTIONS, ROOT / "infra")
    found = (path for folder in folders for path in folder.rglob("*.py"))
    return sorted(path for path in found if "cdk.out" not in path.parts)


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax that a rule here looks at: all of them at once, for all rules."""
    return tuple(n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, KINDS))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports_of(path: Path) -> set[str]:
    """Top-level names of what a file imports, wherever in it."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def reads_environment(path: Path) -> bool:
    """Return whether a file names `os.environ` or `os.getenv`."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"))
        or (isinstance(node, ast.alias) and node.name in ("environ", "getenv"))
        for node in nodes(path)
    )


def test_imports_point_down() -> None:
    run = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_libraries_stay_at_home() -> None:
    astray = [
        f"{name_of(path)} imports {library}"
        for path in PACKAGE.rglob("*.py")
        for library in imports_of(path) & AT_HOME.keys()
        if not path.relative_to(PACKAGE).as_posix().startswith(AT_HOME[library])
    ]
    assert astray == []


def test_openai_is_imported_for_clients_that_authors_bring_alone() -> None:
    importing = [path for path in PACKAGE.rglob("*.py") if "openai" in imports_of(path)]
    assert importing == [PACKAGE / "plugins" / "models" / "openai_client.py"]


def test_no_test_imports_what_takes_seconds_before_it_runs() -> None:
    """Each worker collects all tests: what a module imports is paid for by all of them."""
    apart = {TESTS / "support" / "aws" / name for name in ("own_apps.py", "synthesize.py")}
    slow = [
        f"{name_of(path)} imports {name}"
        for path in TESTS.rglob("*.py")
        for text in (path.read_text("utf-8"),)
        if path not in apart and any(name in text for name in SLOW)
        for node in ast.parse(text).body
        for name in imported_by(node)
        if name.startswith(SLOW)
    ]
    assert slow == []


def imported_by(node: ast.stmt) -> list[str]:
    """Return the modules that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_functions_import_no_library_of_the_adapters() -> None:
    astray = [
        f"{name_of(path)} imports {library}"
        for path in FUNCTIONS.rglob("*.py")
        for library in imports_of(path) & AT_HOME.keys()
    ]
    assert astray == []


def test_environment_is_read_in_one_place() -> None:
    # The CDK's command line tells its app the region in no other way, nor Lambda its runtime client anything.
    # The collector rests before `wiring` is imported.
    # A secret of a tool is a variable of the author's own, also where nothing is wired.
    names = ("wiring.py", "collector.py", "runtime_client.py", "declare/secret.py")
    entries = {*(PACKAGE / name for name in names), ROOT / "infra" / "app.py"}
    allowed = entries | _left_out()
    assert [name_of(p) for p in sources() if reads_environment(p) and p not in allowed] == []


def test_chance_and_time_are_read_in_few_places() -> None:
    servers = tuple(PACKAGE / "desk" / name for name in ("cli", "cdk", "local"))
    simulated = PACKAGE / "desk" / "local" / "aws" / "states"
    reading = {
        name_of(path)
        for path in sources()
        if imports_of(path) & CHANCE
        and (path.is_relative_to(simulated) or not any(map(path.is_relative_to, servers)))
        and path.name != "twin.py"
    }
    assert reading == DRAWS_AND_READS.keys()


def test_docstrings_open_with_the_verb_or_the_thing() -> None:
    opened = {name_of(p): n for p in sources() if (n := len(QUESTION.findall(p.read_text())))}
    assert opened == {}, "docstrings that open with a question word, by file"


def test_no_name_is_a_participle_and_limits_are_max_and_min() -> None:
    wrong = [
        f"{name_of(path)}:{line} {name}"
        for path in sources()
        for name, line in names_of(path)
        if name.strip("_") in PARTICIPLES or re.match(r"_?(LONGEST|LEAST|MOST)_", name)
    ]
    assert wrong == []


def test_no_literal_is_unpacked_where_it_stands() -> None:
    """`f(*(a, b), *(c,))` only outwits the formatter: what it says is `f(a, b, c)`."""
    unpacked = [
        f"{name_of(path)}:{node.lineno}"
        for path in sources()
        for node in nodes(path)
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List)
    ]
    assert unpacked == []


def test_importing_layover_costs_nothing() -> None:
    code = "import sys, layover; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(LAYER)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert [name for name in (*HEAVY, "pydantic") if name in run.stdout.split()] == []


def test_settling_a_run_imports_no_code_of_the_users() -> None:
    code = "import sys, functions.settle.handler, functions.sweep.handler; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{FUNCTIONS}:{ROOT}:{LAYER}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "user_agents" not in run.stdout.split()


def test_nothing_in_the_layer_needs_the_one_machine_runner() -> None:
    left_out = _left_out()
    asking = [
        name_of(path)
        for path in PACKAGE.rglob("*.py")
        if path not in left_out
        and any(
            isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith(tuple(_modules_left_out()))
            for node in nodes(path)
        )
    ]
    assert asking == []


def test_prompts_are_files() -> None:
    """Prompts of background tasks are texts to read and to edit, not strings in code."""
    prose = [
        f"{name_of(path)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.lstrip().lower().startswith(("you are ", "your task is "))
    ]
    assert prose == []


def _left_out() -> set[Path]:
    """Return the files that the layer is built without."""
    places = (place for pattern in LEFT_OUT for place in PACKAGE.glob(pattern))
    return {path for place in places for path in _files(place)}


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("*.py"))


def _modules_left_out() -> set[str]:
    places = {place.relative_to(PACKAGE) for pattern in LEFT_OUT for place in PACKAGE.glob(pattern)}
    return {".".join(("layover", *place.with_suffix("").parts)) for place in places}


WAITS = ("wait_for", "timeout", "wait", "join", "result")
MAY_WAIT = re.compile(r"\.wait_for\(|\.(timeout|wait|join|result)\(\s*[\d.]")
"""Text of a file that may have a limit in seconds: only such a file is parsed."""
MIN_GUARD_S = 30
MAX_EXPIRY_S = 0.5
"""A shorter limit is meant to pass, and is no guard."""
STARTS_SYSTEMS = (
    "e2e",
    "torture",
    "browser",
    "npm",
    "benchmarks",
    "eval",
    "integration/local/test_runner.py",
)
"""They hold promises of the whole system in seconds, in `make test-all`."""


def guards(path: Path) -> Iterator[tuple[int, float]]:
    """Lines with a limit in seconds: `asyncio.wait_for(x, 5)`, `asyncio.timeout(5)`, `event.wait(5)`."""
    for node in nodes(path):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        last = node.args[-1]
        if (
            node.func.attr in WAITS
            and isinstance(last, ast.Constant)
            and isinstance(last.value, int | float)
        ):
            yield node.lineno, last.value


def test_no_test_depends_on_how_fast_a_process_is_scheduled() -> None:
    tests = TESTS
    hasty = [
        f"{name_of(path)}:{line}"
        for path in sorted(tests.rglob("*.py"))
        if not path.relative_to(tests).as_posix().startswith(STARTS_SYSTEMS)
        and MAY_WAIT.search(path.read_text())
        for line, seconds in guards(path)
        if MAX_EXPIRY_S < seconds < MIN_GUARD_S
    ]
    assert hasty == [], "a guard against a hang is 30 s or more: a busy machine takes its time"


def test_agents_in_several_files_pass_the_checks() -> None:
    """`__init__.py` imports what is served, and uses it nowhere."""
    code = "from user_agents.orders import orders\n"
    name = ROOT / "functions" / "user_agents" / "__init__.py"
    command = [sys.executable, "-m", "ruff", "check", "--stdin-filename", str(name), "-"]
    run = subprocess.run(command, cwd=ROOT, input=code, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
