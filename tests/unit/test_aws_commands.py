"""Lines for the AWS CLI on pages ask services for what they have, by the names that they have for it."""

import re
from itertools import chain
from pathlib import Path

import pytest

from support.aws.command_line import OF_THE_CLI, AwsCommand, aws_lines, read_line
from support.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = [Page(path) for path in chain(ROOT.glob("*.md"), (ROOT / "docs").rglob("*.md"))]
WAITS = "wait"
"""Asks again and again by a waiter, which is no operation."""
NAMED = re.compile(r"aws [a-z0-9-]+ [a-z0-9-]+( |$)")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("cognito get-user", "there is no service cognito"),
        ("ssm set-parameter --name a", "ssm has no set-parameter"),
        ("ssm put-parameter --name a --value b --key c", "ssm put-parameter has no key"),
        ("cognito-idp admin-disable-user --username a", "needs UserPoolId"),
    ],
)
def test_what_no_service_takes_is_refused(line: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_line(line.split())


def test_line_is_read_as_the_request_that_it_makes() -> None:
    words = [
        "ssm",
        "put-parameter",
        "--overwrite",
        "--name",
        "a",
        "--value",
        "b",
        "--output",
        "text",
    ]
    asked = AwsCommand("ssm", "put_parameter", {"Overwrite": True, "Name": "a", "Value": "b"})
    assert read_line(words) == asked
    words = ["stepfunctions", "send-task-success", "--task-token", "a", "--task-output", "{}"]
    assert read_line(words).parameters == {"taskToken": "a", "output": "{}"}


def test_lines_are_found_within_others() -> None:
    source = 'a="$(aws x y --c d)" && b=$(aws x z \\\n  --e "f | g") | aws x w\nlaws x y'
    assert [*aws_lines(source)] == [
        ["x", "y", "--c", "d"],
        ["x", "z", "--e", "f | g"],
        ["x", "w"],
    ]


def whole_lines() -> list[list[str]]:
    """Those of blocks, which a reader pastes."""
    return [words for page in PAGES for block in page.shell for words in aws_lines(block.source)]


def named_lines() -> list[list[str]]:
    """Those in sentences, which may leave out what the sentence says."""
    spans = (span for page in PAGES for span in page.spans if NAMED.match(span))
    return [words for span in spans for words in aws_lines(span)]


@pytest.mark.parametrize("is_whole", [True, False])
def test_lines_of_pages_ask_for_what_services_have(is_whole: bool) -> None:
    lines = whole_lines() if is_whole else named_lines()
    asked = [each for each in lines if each[0] not in OF_THE_CLI and each[1] != WAITS]
    assert len(asked) > 5
    for words in asked:
        read_line(words, is_whole=is_whole)
