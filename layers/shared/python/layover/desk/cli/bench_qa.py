"""`layover bench qa FILE`: how many questions about long conversations a model answers with memory."""

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from layover import wiring
from layover.declare.agent import Agent
from layover.desk.cli.evals import NotRun, add_variables, require_models
from layover.desk.evals.qa.data import read_data
from layover.desk.evals.qa.learner import Models
from layover.desk.evals.qa.measure import Measure, measure, setup_of
from layover.desk.evals.qa.results import Results, figures, report
from layover.desk.failures import report_failure
from layover.ports import ChatModel, Embedder
from layover.testing import HashingEmbedder
from layover.values.text import reveal

INCOMPLETE = 1


@dataclass(frozen=True)
class Request:
    """The command's arguments. A model without a name is the environment's, the judge that of the answers."""

    file: Path
    model: str | None = None
    judge: str | None = None
    extractor: str | None = None
    observer: str | None = None
    limit: int | None = None
    again: int = 20
    at_once: int = 1
    json: Path | None = None
    continue_from: Path | None = None


@report_failure
def main(request: Request, model: ChatModel | None = None, embedder: Embedder | None = None) -> int:
    """Measure, print the report, and return the exit code: 0 if every question has an answer and a verdict, 1
    if some have none, 2 if nothing could be asked. `model`, `embedder`: in place of the environment's."""
    try:
        data = read_data(request.file)
        models = _models(request, served=model is None)
        if request.json is not None and not request.json.absolute().parent.is_dir():
            raise NotRun(f"{request.json.parent} is not a folder: make it, or name another place")
        ports = wiring.in_memory_runtime(Agent("none"))
        how = Measure(
            models=models,
            model=model or ports.model,
            embedder=embedder or ports.embedder or HashingEmbedder(),
            limit=request.limit,
            again=request.again,
            at_once=request.at_once,
        )
        setup = setup_of(data, models, how.embedder)
        results = Results.open(request.continue_from, setup)
        asyncio.run(measure(how, data, results, _tell))
        for line in report(results):
            print(reveal(line))
        if request.json is not None:
            text = json.dumps(figures(setup, results), indent=1, ensure_ascii=False)
            request.json.write_text(f"{text}\n", "utf-8")
    except OSError as error:
        raise NotRun(str(error)) from error
    except KeyboardInterrupt:
        if path := request.continue_from:
            print(reveal(f"layover: --continue {path} goes on with it"), file=sys.stderr)
        return 130
    return 0 if all(each.right is not None for each in results.answered) else INCOMPLETE


def _models(request: Request, *, served: bool) -> Models:
    """Return the models by name. Raises NotRun if the environment serves one of them not."""
    add_variables(Path.cwd())
    settings = wiring.environment().settings
    answers = request.model or settings.model
    models = Models(
        answers=answers,
        judge=request.judge or answers,
        extractor=request.extractor or settings.extractor_model or answers,
        observer=request.observer or settings.observer_model or answers,
    )
    if served:
        require_models((models.answers, models.judge, models.extractor, models.observer))
    return models


def _tell(line: str) -> None:
    print(reveal(line), file=sys.stderr, flush=True)
