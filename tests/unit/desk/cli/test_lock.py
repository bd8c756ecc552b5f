"""`layover lock`: what it asks of uv, what it writes, and which locks no longer fit."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from layover import __version__
from layover.desk.cdk import locks
from layover.desk.cli import lock as locking
from layover.desk.cli import uv
from layover.desk.failures import CommandFailed
from layover.project import Project, read
from support.commands import call

FAKE = r"""#!/bin/sh
echo "$@" >> "$TOLD"
case "$*" in *" $REFUSED "*) echo "no version of lamp" >&2; exit 1;; esac
for out; do :; done
printf 'lamp==1.2 \\\n    --hash=sha256:aa\n' >> "$out"
printf 'shade==3 ; python_version < "3.12" \\\n    --hash=sha256:bb\n' >> "$out"
"""
"""A program in the place of uv, which adds to what it finds in the file that it writes."""
PROJECT, AGENTS = "requirements.txt", "agents/requirements.txt"
LOCKS = ("requirements.lock", "agents/requirements.lock")


@dataclass(frozen=True)
class Uv:
    """The program, and what it was told."""

    folder: Path

    def environment(self, refused: str = "none.txt") -> dict[str, str]:
        """`refused`: the file of requirements for which it finds no versions."""
        return {"TOLD": str(self.folder / "told"), "REFUSED": refused}

    @property
    def told(self) -> list[str]:
        return (self.folder / "told").read_text().splitlines()


@pytest.fixture(autouse=True)
def own_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the path: a uv of this machine would ask an index."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def fake(own_path: Path) -> Uv:
    program = own_path / "uv"
    program.write_text(FAKE)
    program.chmod(0o755)
    return Uv(own_path)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path / "shop"
    (root / "agents").mkdir(parents=True)
    (root / "layover.toml").write_text("")
    (root / PROJECT).write_text(f"layover[local,cdk]=={__version__}\n-r {AGENTS}\n")
    (root / AGENTS).write_text("lamp>=1  # ours\n")
    return read(root)


def texts_of(project: Project) -> list[str | None]:
    """The locks that are there."""
    places = [project.root / name for name in LOCKS]
    return [each.read_text() if each.is_file() else None for each in places]


# No lock


def test_without_uv_it_says_how_to_get_it_and_writes_nothing(project: Project) -> None:
    ended = call(project.root / "agents", "lock")
    assert ended.returncode == 1
    assert "`pip install uv && layover lock`" in ended.stderr
    assert texts_of(project) == [None, None]


def test_requirements_without_an_answer_leave_both_locks_as_they_were(
    project: Project, fake: Uv
) -> None:
    locking.make(project, environment=fake.environment())
    before = texts_of(project)
    with pytest.raises(CommandFailed, match=f"{AGENTS} cannot be locked: no version of lamp"):
        locking.make(project, environment=fake.environment(AGENTS))
    assert len(fake.told) == 4
    assert texts_of(project) == before


def test_answer_that_takes_too_long_is_a_check_that_may_succeed_later(
    project: Project, fake: Uv
) -> None:
    with pytest.raises(CommandFailed, match="has not found the versions") as failed:
        locking.make(project, limit_s=0, environment=fake.environment())
    assert failed.value.exit_code == 3
    assert texts_of(project) == [None, None]


def test_release_that_is_not_the_pinned_one_makes_no_lock(project: Project, fake: Uv) -> None:
    """The versions of the layer are a part of the lock: they would be those of another release."""
    (project.root / PROJECT).write_text("layover[local]==0.0.1\n")
    with pytest.raises(CommandFailed, match=f"pins 0.0.1, and {__version__} is installed"):
        locking.make(project, environment=fake.environment())


def test_project_without_requirements_has_nothing_to_lock(project: Project, fake: Uv) -> None:
    for name in (PROJECT, AGENTS):
        (project.root / name).unlink()
    with pytest.raises(CommandFailed, match=r"there is no requirements\.txt"):
        locking.make(project, environment=fake.environment())


# Locks that do not fit


@pytest.fixture
def locked(project: Project, fake: Uv) -> Project:
    locking.make(project, environment=fake.environment())
    return project


def unfit(project: Project) -> list[str]:
    """The requirements whose locks do not fit."""
    return [file.relative_to(project.root).as_posix() for file, _ in locks.problems(project)]


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        (PROJECT, f"layover[local]=={__version__}\n-r {AGENTS}\n", [PROJECT]),
        # The project's requirements name those of the agents.
        (AGENTS, "lamp>=2\n", [PROJECT, AGENTS]),
        (AGENTS, "-c bounds.txt\nlamp>=1\n", [PROJECT, AGENTS]),
    ],
)
def test_lock_of_other_requirements_is_named(
    name: str, text: str, named: list[str], locked: Project
) -> None:
    (locked.root / name).write_text(text)
    assert unfit(locked) == named
    ended = call(locked.root, "lock", "--check")
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == len(named)
    assert "requirements.lock was made of other requirements" in ended.stderr


def test_constraint_that_changes_makes_a_lock_unfit(project: Project, fake: Uv) -> None:
    (project.root / AGENTS).write_text("-c bounds.txt\nlamp\n")
    bounds = project.root / "agents" / "bounds.txt"
    bounds.write_text("lamp<2\n")
    locking.make(project, environment=fake.environment())
    assert unfit(project) == []
    bounds.write_text("lamp<3\n")
    assert unfit(project) == [PROJECT, AGENTS]


@pytest.mark.parametrize("name", LOCKS)
def test_lock_that_is_missing_next_to_another_is_named(name: str, locked: Project) -> None:
    (locked.root / name).unlink()
    assert unfit(locked) == [name.replace(".lock", ".txt")]


def test_lock_of_another_program_does_not_tell_what_it_is_of(locked: Project) -> None:
    (locked.root / LOCKS[0]).write_text("lamp==1.2 --hash=sha256:aa\n")
    ((file, why),) = locks.problems(locked)
    assert (file.name, why) == (PROJECT, "requirements.lock does not tell what it was made of")


def test_project_without_any_lock_lacks_none_until_it_is_asked(project: Project) -> None:
    assert unfit(project) == []
    ended = call(project.root, "lock", "--check")
    assert ended.returncode == 1
    assert f"{AGENTS}: requirements.lock is missing: `layover lock`" in ended.stderr


def test_comments_and_ends_of_lines_make_no_lock_unfit(locked: Project) -> None:
    (locked.root / AGENTS).write_bytes(b"# ours\r\n\r\nlamp>=1\r\n")
    assert unfit(locked) == []
    ended = call(locked.root, "lock", "--check")
    assert (ended.returncode, ended.stdout) == (0, "the locks fit\n")


# Locks


def test_both_are_written_with_what_they_are_of_and_how_many_packages_they_have(
    project: Project, fake: Uv
) -> None:
    made = locking.make(project, environment=fake.environment())
    assert [(each.path, each.packages) for each in made] == [(name, 2) for name in LOCKS]
    for text in texts_of(project):
        assert text is not None
        first, second, _, *rest = text.splitlines()
        assert first.startswith("# Made by `layover lock` of requirements.txt and of the versions")
        assert re.fullmatch("# sha256:[0-9a-f]{64}", second)
        assert rest[0] == "lamp==1.2 \\"


def test_project_is_locked_for_every_platform_and_its_agents_for_lambda(
    project: Project, fake: Uv
) -> None:
    locking.make(project, ["--upgrade-package", "lamp"], environment=fake.environment())
    own, of_agents = fake.told
    for told in (own, of_agents):
        assert "--generate-hashes" in told
        assert "--upgrade-package lamp" in told
        assert re.search(r"--constraint=\S+runtime\.lock ", told)
    assert "--universal --python-version 3.11 " in own
    assert f" {PROJECT} --output-file" in own
    assert "--python-version 3.13 --python-platform aarch64-manylinux_2_28 " in of_agents
    assert "--only-binary :all:" in of_agents
    assert f" {AGENTS} --output-file" in of_agents


def test_agents_get_the_versions_of_the_project(project: Project, fake: Uv) -> None:
    locking.make(project, environment=fake.environment())
    own, of_agents = fake.told
    assert f"--constraint={own.rpartition(' ')[2]} " in of_agents


def test_versions_of_the_lock_that_is_there_are_what_uv_begins_with(
    locked: Project, fake: Uv
) -> None:
    (made, _) = locking.make(locked, environment=fake.environment())
    assert made.packages == 4


# The first lock


def test_first_lock_without_uv_is_a_sentence(project: Project) -> None:
    assert locking.first(project) == [
        "lock  not made: `pip install uv && layover lock` pins each package by its hashes"
    ]


def test_first_lock_without_an_index_fails_nothing(project: Project, fake: Uv) -> None:
    told = locking.first(project, fake.environment(PROJECT))
    assert told == ["lock  not made: uv found no versions; `layover lock` says why"]
    assert texts_of(project) == [None, None]


def test_first_lock_is_made_where_uv_finds_versions(project: Project, fake: Uv) -> None:
    told = locking.first(project, fake.environment())
    assert told[1] == "made  agents/requirements.lock: 2 packages, by the hashes of their files"
    assert unfit(project) == []


def test_first_lock_is_left_as_it_is_where_there_is_one(project: Project, fake: Uv) -> None:
    (project.root / LOCKS[0]).write_text("mine")
    assert locking.first(project, fake.environment()) == []
    assert texts_of(project) == ["mine", None]


# The indexes


def test_uv_asks_the_indexes_that_pip_asks() -> None:
    settings = (
        ":env:.index-url='https://a.example/simple'\n"
        "global.cert='/etc/roots.pem'\n"
        "global.extra-index-url='https://b.example/x https://c.example/y'\n"
        "global.index-url='https://weaker.example'\n"
        "global.timeout='60'\n"
        "install.find-links='/wheels\\n/more'\n"
    )
    assert uv.of_pip(settings) == {
        "UV_INDEX_URL": "https://a.example/simple",
        "UV_EXTRA_INDEX_URL": "https://b.example/x https://c.example/y",
        "UV_FIND_LINKS": "/wheels,/more",
        "SSL_CERT_FILE": "/etc/roots.pem",
    }


def test_pip_without_settings_says_nothing_to_uv() -> None:
    assert uv.of_pip("") == {}


def test_variable_of_uvs_own_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_INDEX_URL", "https://uv.example/simple")
    variables = uv.variables(
        "global.index-url='https://pip.example/simple'\n:env:.trusted-host='pip.example'\n"
    )
    assert variables["UV_INDEX_URL"] == "https://uv.example/simple"
    assert variables["UV_INSECURE_HOST"] == "pip.example"
