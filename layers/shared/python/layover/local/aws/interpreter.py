"""What moto's Step Functions interpreter needs to be told before it may run our state machine.

Small replacements, each for something that differs from AWS in a way a run would notice.
"""

import functools
import json
import logging
import pickle
import threading
from types import SimpleNamespace
from typing import Any, cast

import boto3
import botocore.session
from botocore.config import Config
from moto.core.config import default_user_config
from moto.stepfunctions.parser.api import InvalidOutput, TaskTimedOut
from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent
from moto.stepfunctions.parser.asl.component.program.program import Program
from moto.stepfunctions.parser.asl.eval.callback.callback import (
    CallbackOutcome,
    CallbackPoolManager,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.program_state import ProgramRunning
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.asl.utils import boto_client
from moto.stepfunctions.parser.backend import execution
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.backend.execution_worker_comm import ExecutionWorkerCommunication
from moto.stepfunctions.responses import StepFunctionResponse

from layover.local.functions.invocation import REGION

# moto's own: a second `install` must not wrap the replacement of the first.
_eval_program: Any = Program.eval


def session() -> boto3.Session:
    """A session that reads nothing of the developer's AWS configuration or credentials."""
    nothing: dict[str, Any] = {
        "profile": (None, None, None, None),
        "config_file": (None, None, "/dev/null", None),
        "credentials_file": (None, None, "/dev/null", None),
    }
    core = botocore.session.Session(session_vars=nothing)
    core.set_credentials("local", "local")
    return boto3.Session(botocore_session=core, region_name=REGION)


def make_client(service: Any, endpoint_url: str, read_timeout: float = 60.0) -> Any:
    """A client of the local services. No retries, no proxy; connections for 64 threads."""
    config = Config(
        retries={"total_max_attempts": 1},
        proxies={},
        read_timeout=read_timeout,
        max_pool_connections=64,
        parameter_validation=False,
    )
    made: Any = session().client(service, endpoint_url=endpoint_url, config=config)
    return made


def install(endpoint_url: str) -> None:
    """Prepare the interpreter of this process to call services at `endpoint_url`."""
    # It logs every failed task as an error with a page of text; executions are there to be looked at.
    logging.getLogger("moto.stepfunctions").setLevel(logging.CRITICAL)
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    _share_clients(endpoint_url)
    _replace_worker()
    _end_stopped_programs()
    _keep_what_tasks_send()
    _take_tokens_once()


def _share_clients(endpoint_url: str) -> None:
    """One client a service: moto makes one a state (12 ms), and boto3.client is not thread-safe."""
    lock = threading.Lock()
    make = functools.cache(lambda service: make_client(service, endpoint_url, 86_400.0))

    def client(*, service_name: str, **ignored: object) -> Any:
        with lock:
            return make(service_name)

    vars(boto_client)["boto3"] = SimpleNamespace(client=client)


@functools.lru_cache(maxsize=8)
def _parsed(definition: str) -> bytes:
    """The program of a definition, pickled: each execution gets a copy that nothing has run on."""
    return pickle.dumps(AmazonStateLanguageParser.parse(definition)[0])


class _Deaf(ExecutionWorkerCommunication):
    """For the threads of an execution that is over already: their end is no news."""

    def terminated(self) -> None:
        return


class _Worker(ExecutionWorker):
    """Parses a definition once (60 ms), not once an execution, and has its environment at once.

    moto makes the environment in the execution's thread, after the parsing; until then
    StopExecution, and SendTask* with a token that is no longer known, fail on its absence (500).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.env = super()._get_evaluation_environment()
        # moto calls it running once its thread has parsed the definition, and drops a stop before that.
        self.env._program_state = cast(Any, ProgramRunning)()

    def stop(self, stop_date: Any, error: str | None, cause: str | None) -> None:
        """moto shows a stopped execution as RUNNING until the task that it is in comes back, lets its
        threads wait for tokens to the end of their time, and calls it FAILED then."""
        assert self.env is not None
        # Under the lock of its state: a task or a branch that the stop ends calls it failed.
        with self.env._state_mutex:
            if not self.env.is_running():
                return
            super().stop(stop_date, error, cause)
            self._execution_communication.terminated()
            vars(self)["_execution_communication"] = _Deaf()
        for endpoint in list(self.env.callback_pool_manager._pool.values()):
            endpoint.interrupt_all()

    def _get_evaluation_entrypoint(self) -> EvalComponent:
        definition = self._evaluation_details.state_machine_details.definition
        program: EvalComponent = pickle.loads(_parsed(definition))
        return program

    def _get_evaluation_environment(self) -> Environment:
        assert self.env is not None
        return self.env


def _replace_worker() -> None:
    vars(execution)["ExecutionWorker"] = _Worker


def _end_stopped_programs() -> None:
    """The threads of a program or branch that is stopped by their first lines raise, and a Parallel
    state would wait for ever for such a branch."""

    def evaluate(self: Program, env: Environment) -> None:
        try:
            _eval_program(self, env)
        except RuntimeError:
            if env.is_running():
                raise
            # Runs none of its states: an execution's history gets its end.
            self._eval_body(env)

    program: Any = Program
    program.eval = evaluate
    # To note the name of the field that is evaluated fails on a stop; only those below are ever shown.
    program._field_name = lambda _: None


def _keep_what_tasks_send() -> None:
    """moto drops the cause of SendTaskFailure and takes an output that is no JSON."""

    def send_task_failure(self: StepFunctionResponse) -> Any:
        token, error, cause = (self._get_param(name) for name in ("taskToken", "error", "cause"))
        backend: Any = self.stepfunction_backend
        backend.send_task_failure(token, error=error, cause=cause)
        return _empty_result()

    def send_task_success(self: StepFunctionResponse) -> Any:
        token, output = self._get_param("taskToken"), self._get_param("output")
        try:
            json.loads(output)
        except (TypeError, ValueError) as error:
            raise InvalidOutput(f"Invalid Output: {error}", "InvalidOutput") from None
        self.stepfunction_backend.send_task_success(token, output)
        return _empty_result()

    responses: Any = StepFunctionResponse
    responses.send_task_failure = send_task_failure
    responses.send_task_success = send_task_success


def _take_tokens_once() -> None:
    """moto takes a token again as long as its execution runs, and the later answer counts."""
    lock = threading.Lock()
    notify = CallbackPoolManager.notify

    def notify_once(self: CallbackPoolManager, callback_id: str, outcome: CallbackOutcome) -> bool:
        with lock:
            endpoint = self.get(callback_id)
            if endpoint is not None and endpoint._notify_event.is_set():
                message = "Task Timed Out: 'Provided task does not exist anymore'"
                raise TaskTimedOut(message, "TaskTimedOut")
            return notify(self, callback_id, outcome)

    manager: Any = CallbackPoolManager
    manager.notify = notify_once


def _empty_result() -> Any:
    from moto.core.responses import EmptyResult

    return EmptyResult()
