"""The page on front ends: its TypeScript is compiled against the document of a system, and run."""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

import pytest

from npm.conftest import HERE, LIMIT_S
from support.providers.openai import say
from support.system.system import Brain, System

PAGE = HERE.parents[1] / "docs" / "guides" / "front-ends.md"
LOCAL = "http://127.0.0.1:8787"
SECOND_ARGUMENT = ', "application/json" | "application/problem+json"'
MAIN = """
import { api, ask } from "./client";
declare const process: { argv: string[] };
const { data: thread } = await api.POST("/threads", { body: { agent: "support" } });
const run = await ask(thread!.id, process.argv[2]!);
const refusal: unknown = await ask("thread_none", "x").catch((error) => error.message);
console.log(JSON.stringify({ status: run.status, text: run.text, refusal }));
"""
COMPILED = ("main.ts", "sign-in.ts")


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the packages in the folder below them."""
    program, *arguments = command
    path = program if program == "node" else f"../node_modules/.bin/{program}"
    return subprocess.run(
        [path, *arguments], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def compiled(folder: Path, sources: Sequence[str] = COMPILED) -> str:
    """What the compiler finds."""
    flags = "--noEmit --strict --module esnext --moduleResolution bundler --target es2022 --lib es2022,dom"
    return run(folder, "tsc", *flags.split(), *sources).stdout


@pytest.fixture(scope="module")
def front(packages: Path, system: System) -> Path:
    """A folder with the page's files, a program that uses them, and the types of this system. It is this
    process's own: another one that tests has another system."""
    folder = packages / f"front-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    for code in re.findall(r"^```ts\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        name = code.partition("\n")[0].removeprefix("// ")
        (folder / name).write_text(code.replace(LOCAL, system.url))
    (folder / "main.ts").write_text(MAIN)
    with urlopen(f"{system.url}/openapi.json", timeout=LIMIT_S) as document:
        (folder / "openapi.json").write_bytes(document.read())
    made = run(folder, "openapi-typescript", "openapi.json", "-o", "layover.ts")
    assert made.returncode == 0, made.stderr[-3000:]
    return folder


def test_the_pages_code_is_typed(front: Path) -> None:
    assert compiled(front) == ""


def test_without_the_second_argument_an_answer_may_be_a_text(front: Path) -> None:
    plain = front.with_name(f"{front.name}-plain")
    plain.mkdir(exist_ok=True)
    for name in ("layover.ts", "main.ts"):
        (plain / name).write_text((front / name).read_text())
    code = (front / "client.ts").read_text()
    assert SECOND_ARGUMENT in code
    (plain / "client.ts").write_text(code.replace(SECOND_ARGUMENT, ""))
    assert "Property 'status' does not exist on type" in compiled(plain, ["main.ts"])


def test_the_pages_client_asks_and_hears_a_refusal(front: Path, brain: Brain) -> None:
    flags = ("--bundle", "--format=esm", "--platform=node", "--outfile=main.mjs")
    bundled = run(front, "esbuild", "main.ts", *flags)
    assert bundled.returncode == 0, bundled.stderr[-3000:]
    answer = run(front, "node", "main.mjs", brain.plan(say("It is on its way.")))
    assert answer.returncode == 0, answer.stderr[-3000:]
    assert json.loads(answer.stdout) == {
        "status": "success",
        "text": "It is on its way.",
        "refusal": "there is no such thread",
    }
