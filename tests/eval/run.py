"""`make eval`: what the memory models remember of the evaluation set.

First the scripted half: does the product keep exactly what it has to of given answers? Then, where the
environment names a provider, the real models on the same conversations. Without one the second half does not
happen, and that is what is printed."""

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.asking import AT_ONCE, Answers, Job, answers
from eval.cases import SETS, TOPICS, Transcript, transcripts
from eval.extraction import Held, held
from eval.prompts import code_number
from eval.results import Measured, Results
from eval.scores import Score, pairs_table, row_json, runs_table, table, total
from eval.tasks import EXTRACTOR, LOOPS, PAIRS, RECALL, VECTORS, Task, all_tasks
from eval.watched import Provider
from layover.testing import HashingEmbedder
from layover.wiring import in_memory_runtime

NO_KEY = "OPENAI_API_KEY and OPENAI_BASE_URL are not set: only the scripted half ran, no model was asked."
ALL = "all"


@dataclass(frozen=True)
class Options:
    """What to measure, and where the results go."""

    topics: frozenset[str]
    sets: tuple[str, ...]
    at_once: int = AT_ONCE
    json: Path | None = None
    results: Path | None = None


def main(args: Sequence[str]) -> int:
    """0: the scripted half is right and, where a provider is named, it answered everything. 2: the arguments
    are wrong."""
    options = parse(args)
    if isinstance(options, str):
        print(options)
        return 2
    # Tools that fail are part of some conversations, and of no table.
    logging.getLogger("layover").setLevel(logging.ERROR)
    wanted = {*options.topics, *(TOPICS if EXTRACTOR in options.topics else ())}
    cases = [c for name in options.sets for c in transcripts(name) if c.topic in wanted]
    deviations = asyncio.run(scripted(cases))
    late = [case for case in cases if case.awaits]
    print(
        f"scripted: {len(cases)} transcripts, {len(deviations)} not as expected,"
        f" {len(late)} await a change of the product"
    )
    print("\n".join(f"{case.id}: {case.awaits}" for case in late), end="\n" if late else "")
    print("\n".join(deviations), end="\n" if deviations else "", flush=True)
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")):
        print(NO_KEY)
        return int(bool(deviations))
    try:
        results = Results(options.results)
    except (OSError, ValueError) as error:
        print(f"--continue: {error}")
        return 2
    is_whole = asyncio.run(real(options, Provider.of(in_memory_runtime()), results))
    return int(bool(deviations) or not is_whole)


def parse(args: Sequence[str]) -> Options | str:
    """Return the options, or what is wrong with the topics. Exits with 2 where an option is wrong."""
    names = topic_names()
    parser = argparse.ArgumentParser(
        prog="make eval",
        description="Measures what memory keeps of the evaluation set (tests/eval/README.md).",
        epilog=f"topics: {', '.join(names)}",
    )
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="what to measure (default: all)")
    parser.add_argument(
        "--set",
        choices=(*SETS, ALL),
        default=ALL,
        help="conversations: main, those that no prompt was tuned to (apart), or all (default)",
    )
    parser.add_argument(
        "--at-once",
        type=_at_once,
        default=AT_ONCE,
        metavar="N",
        help=f"cases that ask the provider at the same time (default: {AT_ONCE})",
    )
    parser.add_argument("--json", type=_file, metavar="FILE", help="write the tables and results")
    parser.add_argument(
        "--continue",
        type=_file,
        dest="results",
        metavar="FILE",
        help="keep each result in this file (JSON lines), and ask for none that it has",
    )
    options = parser.parse_intermixed_args(args)
    if unknown := [t for t in options.topics if t not in names]:
        return f"no such topic: {', '.join(unknown)}; there are {', '.join(names)}"
    return Options(
        topics=frozenset(options.topics or names),
        sets=SETS if options.set == ALL else (options.set,),
        at_once=options.at_once,
        json=options.json,
        results=options.results,
    )


def topic_names() -> tuple[str, ...]:
    """Return the names that the command takes: topics of transcripts, and tasks."""
    return (*TOPICS, *(task.name for task in all_tasks()))


def _at_once(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of cases (1 or more)")
    return int(text)


def _file(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} cannot be a file: make its folder first")
    return path


async def scripted(cases: Sequence[Transcript]) -> list[str]:
    """The transcripts of which something else is kept than the script says, but for those that await a
    change of the product; these are named once they await it no longer."""
    found = [(case, deviation(case, await rehearsed(case))) for case in cases]
    astray = [f"{case.id}: {d}" for case, d in found if d and not case.awaits]
    return astray + [f"{case.id}: awaits nothing" for case, d in found if case.awaits and not d]


async def rehearsed(case: Transcript) -> Held:
    """With the transcript's own script as the extractor."""
    return await held(case, embedder=HashingEmbedder())


def deviation(case: Transcript, found: Held) -> str:
    """Return how memory differs from what the script has to leave; "" if it does not."""
    known = [text for text in case.known if text not in case.gone]
    parts = [
        f"keeps {found.new}, not {case.kept}" if sorted(found.new) != sorted(case.kept) else "",
        f"knows {found.known}, not {known}" if {t for t, _ in found.known} != set(known) else "",
        f"refuses {found.refused}, not {case.refused}" if found.refused != case.refused else "",
        f"asks {len(found.asked)} times" if len(found.asked) != case.number_read else "",
    ]
    return "; ".join(p for p in parts if p)


async def real(options: Options, provider: Provider, results: Results) -> bool:
    """Ask the provider, print what came of it, and return whether every case was answered."""
    jobs = jobs_of(options, has_embedder=provider.embedder is not None)
    if not jobs:
        print(f"no cases: --set {' '.join(options.sets)} has none of these topics")
        return False
    found = await answers(jobs, provider, results, at_once=options.at_once)
    tables = tables_of(jobs, found, provider)
    for each in tables:
        print(f"\n{each.title}\n{each.text}")
    _print_end(options, jobs, found)
    if options.json:
        cases = [_case_json(job, found.scores[i], provider) for i, job in enumerate(jobs)]
        content = {"code": code_number(), "tables": [t.to_json() for t in tables], "cases": cases}
        options.json.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return not found.failed


def jobs_of(options: Options, *, has_embedder: bool = False) -> list[Job]:
    """Return the cases that are measured, in the order of the report."""
    all_jobs = (
        Job(task, name, case)
        for task in all_tasks()
        if has_embedder or task.name != VECTORS
        for name in options.sets
        for case in task.cases(name)
    )
    return [job for job in all_jobs if {job.topic, job.task.name} & options.topics]


@dataclass(frozen=True)
class Table:
    """The figures of a task on a set."""

    of: Measured
    set: str
    rows: list[tuple[str, Score]]

    @property
    def title(self) -> str:
        """What was measured, in a line."""
        of = self.of
        parts = [f"{of.model}, prompt {of.prompt}"] if of.model else []
        if of.embedder or of.task in (EXTRACTOR, RECALL):
            parts.append(f"embedder: {of.embedder or 'by words only'}")
        return f"{of.task}: {', '.join([*parts, f'set {self.set}'])}"

    @property
    def whole(self) -> Score:
        """All rows in one."""
        return total(score for _, score in self.rows)

    @property
    def text(self) -> str:
        """The rows, refusals by reason, the cost, and remarks."""
        whole = self.whole
        cost = "unknown" if whole.cost is None else f"{whole.cost:.4f} USD"
        show = {LOOPS: runs_table, PAIRS: pairs_table}.get(self.of.task, table)
        lines = [show(self.rows)]
        if whole.refused:
            reasons = (f"{n} {why}" for why, n in whole.refused.most_common())
            lines.append(f"refused: {', '.join(reasons)}")
        lines.append(f"cost: {cost}, {whole.tokens} tokens, {whole.seconds:.0f} s of the model")
        return "\n".join([*lines, *whole.remarks])

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "task": self.of.task,
            "set": self.set,
            "model": self.of.model,
            "prompt": self.of.prompt,
            "embedder": self.of.embedder,
            "rows": [row_json(name, score) for name, score in self.rows],
            "all": row_json(ALL, self.whole),
        }


def tables_of(jobs: Sequence[Job], found: Answers, provider: Provider) -> list[Table]:
    """Return a table for each task and set that has cases; one row a topic, in order."""
    tables: dict[tuple[Task, str], dict[str, list[Score]]] = {}
    first: dict[tuple[Task, str], Measured] = {}
    for index, job in sorted(enumerate(jobs), key=lambda each: _place(each[1].topic)):
        key = (job.task, job.set)
        first.setdefault(key, job.measured(provider))
        tables.setdefault(key, {}).setdefault(job.topic, []).append(found.scores[index])
    return [
        Table(first[key], key[1], [(topic, total(scores)) for topic, scores in by_topic.items()])
        for key, by_topic in tables.items()
    ]


def _place(topic: str) -> int:
    return TOPICS.index(topic) if topic in TOPICS else len(TOPICS)


def _print_end(options: Options, jobs: Sequence[Job], found: Answers) -> None:
    """Print what a reader of the figures has to know of how they came about."""
    print()
    if found.other_code:
        print(
            f"{found.other_code} of the results in {options.results} were judged by another version of"
            " the code than today's: measure these again with another file"
        )
    if found.stopped:
        print(f"stopped: {found.stopped}, {found.left} cases were not asked for")
    if found.failed:
        how = f"--continue {options.results}" if options.results else "--continue FILE from now on"
        print(f"{found.failed} of {len(jobs)} cases have no result; ask for these with {how}")
    else:
        print(f"{len(jobs)} cases, all with a result")


def _case_json(job: Job, score: Score, provider: Provider) -> dict[str, Any]:
    of = job.measured(provider)
    about = {"task": of.task, "set": job.set, "topic": job.topic, "case": of.case}
    return {**about, "prompt": of.prompt, "model": of.model, "score": score.to_json()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
