"""Files of cases: what is wrong is said with its line, its key and what to do."""

import json
from pathlib import Path

import pytest

from layover.desk.evals.cases import CaseFile
from layover.desk.evals.read import CasesInvalid, read_cases

LEAST = "cases:\n  - name: a\n    input: hi\n    expect: {}\n"


def written(folder: Path, text: str | bytes, name: str = "cases.yaml") -> Path:
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def refused(folder: Path, text: str | bytes, name: str = "cases.yaml") -> str:
    with pytest.raises(CasesInvalid) as caught:
        read_cases(written(folder, text, name))
    return str(caught.value).replace(f"{folder}/", "")


# What is refused


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CasesInvalid, match=r"none\.yaml cannot be read: No such file or directory"):
        read_cases(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cases.yaml is empty: write `cases:` with a list of cases"),
        ("- a", "cases.yaml:1: an object with `cases` is needed, not a list"),
        (b"cases: \xff", "cases.yaml is not UTF-8: save it as UTF-8"),
        ("cases: [\n", "cases.yaml:2: not YAML: "),
        ("cases: !!python/object:os.system {}\n", "cases.yaml:1: not YAML: "),
        ("cases: []\n", "cases.yaml:1: cases must have at least one case"),
        (f"{LEAST}agnet: shop\n", "cases.yaml:5: no option 'agnet': did you mean 'agent'?"),
        (f"{LEAST}    inptu: x\n", "cases.yaml:5: cases[0] (a): no option 'inptu': did you mean"),
        (f"{LEAST}    name: b\n", "cases.yaml:5: `name` is there twice"),
        (f"{LEAST}{LEAST[7:]}", "cases.yaml:5: cases[1] (a): a case above has the same name"),
        ("cases:\n  - input: hi\n    expect: {}\n", "cases.yaml:2: cases[0]: `name` is missing"),
        ("cases:\n  - name: a\n    input: hi\n", "cases.yaml:2: cases[0] (a): `expect` is missing"),
        (LEAST.replace("hi", "''"), "cases.yaml:3: cases[0] (a): input is empty"),
        (LEAST.replace("hi", "7"), "cases.yaml:3: cases[0] (a): input must be a text"),
        (LEAST.replace("hi", "[{type: smell}]"), "cases.yaml:3: cases[0] (a): input[0]"),
    ],
)
def test_file_that_is_wrong_is_refused(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert refused(tmp_path, text).startswith(message)


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ("{tool: []}", "expect: no option 'tool': did you mean 'tools'?"),
        ("{tools: [{}]}", "expect.tools[0]: `name` is missing"),
        ("{tools: [{name: a, args: [1]}]}", "expect.tools[0].args must"),
        ("{approvals: [{tool: a}]}", "expect.approvals[0]: `decide` is missing"),
        (
            "{approvals: [{tool: a, decide: approv}]}",
            "expect.approvals[0].decide cannot be 'approv': did you mean 'approve'?",
        ),
        ("{output: {}}", "expect.output: name at least one of contains, equals, matches, schema"),
        ("{output: {contains: []}}", "expect.output.contains: the list is empty"),
        ("{output: {contains: ''}}", "expect.output.contains: the text is empty"),
        ("{output: {matches: '('}}", "expect.output.matches: '(' is not a regular expression"),
        ("{output: {schema: {type: nothing}}}", "expect.output.schema is not a JSON schema"),
        ("{judge: ''}", "expect.judge: the text is empty"),
        ("{max: {}}", "expect.max: name at least one of steps, tokens, cost_usd, seconds"),
        ("{max: {steps: 0}}", "expect.max.steps must be greater than or equal to 1, not 0"),
        ("{max: {seconds: -1}}", "expect.max.seconds must be greater than 0, not -1"),
        ("{max: {cost_usd: .nan}}", "expect.max.cost_usd must be a finite number, not nan"),
    ],
)
def test_expectation_that_is_wrong_is_refused(tmp_path: Path, expect: str, message: str) -> None:
    text = LEAST.replace("expect: {}", f"expect: {expect}")
    assert refused(tmp_path, text).startswith(f"cases.yaml:4: cases[0] (a): {message}")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("stubs: [{tool: a}]", "stubs[0]: say what it answers: `result` or `error`"),
        ("stubs: [{tool: a, result: 1, error: x}]", "stubs[0]: `result` and `error` exclude"),
        ("script: []", "script: the list is empty"),
        ("script: [{}]", "script[0]: say what the model does: one of say, call, calls, fail"),
        ("script: [{call: a, fail: b}]", "script[0]: `call` and `fail` exclude each other"),
        ("script: [{say: a, args: {}}]", "script[0]: `args` belongs to a `call`"),
        ("script: [{say: a, status: 500}]", "script[0]: `status` belongs to a `fail`"),
        ("history: [{role: system, content: x}]", "history[0].role must"),
        ("history: [{role: user, content: ''}]", "history[0].content is empty"),
        ("history: [{role: tool, content: x}]", "history[0]: a tool's message has a part"),
        ("metadata: [1]", "metadata must"),
    ],
)
def test_other_key_that_is_wrong_is_refused(tmp_path: Path, more: str, message: str) -> None:
    assert refused(tmp_path, f"{LEAST}    {more}\n").startswith(
        f"cases.yaml:5: cases[0] (a): {message}"
    )


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = "cases:\n  - name: a\n    input: ''\n    expect: {max: {steps: 0}}\n"
    lines = refused(tmp_path, text).splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["cases.yaml:3", "cases.yaml:4"]


def test_json_that_is_wrong_is_refused_with_its_line(tmp_path: Path) -> None:
    assert refused(tmp_path, '{"cases": [\n}', "c.json").startswith("c.json:2: not JSON: ")
    text = '{"cases": [\n{"name": "a",\n"input": "", "expect": {}}]}'
    assert refused(tmp_path, text, "c.json").startswith("c.json:3: cases[0] (a): input is empty")
    twice = '{"cases": [\n{"name": "a", "input": "x", "input": "y", "expect": {}}]}'
    assert refused(tmp_path, twice, "c.json").startswith("c.json:2: `input` is there twice")


def test_yaml_that_contains_itself_is_refused(tmp_path: Path) -> None:
    assert "contains itself" in refused(tmp_path, "cases: &a [*a]\n")


# What is read


def test_case_has_all_that_its_keys_say(tmp_path: Path) -> None:
    text = """
agent: shop
cases:
  - name: everything
    input: [{type: text, text: hi}]
    history: [{role: user, content: Hello}, {role: assistant, content: [{type: text, text: Hi}]}]
    metadata: {plan: free}
    expect:
      tools: [{name: look_up, args: {day: 2026-07-01}}]
      approvals: [{tool: refund, decide: deny}]
      output: {contains: [a, b], equals: {a: 1}, matches: ^x, schema: {type: object}}
      judge: [Be kind., Be short.]
      max: {steps: 1, tokens: 5, cost_usd: 0.5, seconds: 2}
    stubs: [{tool: look_up, result: null}, {tool: refund, args: {a: 1}, error: broken}]
    script: [{say: hi}, {call: a, args: {b: 1}}, {calls: [{call: a}], say: x}, {fail: down}]
"""
    read = read_cases(written(tmp_path, text))
    (case,) = read.cases
    assert read.agent == "shop"
    assert case.expect.tools is not None
    assert case.expect.tools[0].args == {"day": "2026-07-01"}
    assert case.expect.output is not None
    assert case.expect.output.contains == ("a", "b")
    assert case.expect.judge == ("Be kind.", "Be short.")
    assert [stub.error for stub in case.stubs] == [None, "broken"]
    assert case.metadata == {"plan": "free"}
    assert len(case.history) == 2


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    document = {"cases": [{"name": "a", "input": "hi", "expect": {"tools": []}}]}
    as_json = read_cases(written(tmp_path, json.dumps(document), "c.json"))
    as_yaml = read_cases(written(tmp_path, "cases: [{name: a, input: hi, expect: {tools: []}}]"))
    assert as_json == as_yaml == CaseFile.model_validate(document)
    assert as_json.cases[0].expect.tools == ()
