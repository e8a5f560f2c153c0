"""Backtests on the workers of a Dask cluster: workers compute, the first machine does everything else.

A task is a question (or several, for forecasters that ask nobody). The worker runs the forecaster, parses answers and
pages, and fits series. Whatever asks a model, reads the network or touches the ledger is a call back to the first
machine, which reserves the budget, asks, records, and only then answers. So no key leaves that machine, what a worker
that dies had paid for is on record, and its task runs again on that record elsewhere. Calls and answers use the
connections that Dask has already: the first machine opens no port.
"""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from functools import partial
from importlib.metadata import version
from itertools import count
from typing import Any, Final, TypeVar, cast

import cloudpickle
import dask
import structlog
from distributed import Client, KilledWorker, LocalCluster, get_worker

from bot.core.concurrency import map_concurrently
from bot.core.errors import ConfigError, FoxcastError, MalformedDataError, ServiceUnavailableError
from bot.core.forecasts import Trial
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.evaluation.backtest import LocalExecutor, QuestionTask
from bot.forecasting.failures import describe_foreign_error
from bot.forecasting.tool_factory import ToolFactory
from bot.net.html.page_reader import SubprocessPageReader
from bot.store.ledger import Ledger

T = TypeVar("T")
log = structlog.get_logger(__name__)

PROGRAM = "foxcast"
LOOPBACK = "127.0.0.1"
CONNECT_TIMEOUT_S = 20.0
# Local workers show nothing over HTTP, and do not report that their scheduler closed before them.
LOCAL_CONFIG: Final[Mapping[str, object]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical",
}
# A worker that waits for an answer looks this often whether anybody still wants its task.
LOOK_EVERY_S = 5.0
# Questions in a task of a forecaster that asks nobody: each may take milliseconds, as handing over a task does.
QUESTIONS_PER_TASK = 20
# Tasks that are handed over for each thread of the cluster, so that none waits for the next.
TASKS_PER_THREAD = 2

# What workers may call on the first machine, by service.
LEDGER_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "recordings": ("read_trial", "add", "add_all"),
    "documents": ("put",),
    "forecasts": ("history", "questions_of"),
    "learning": ("read_unresolved_notes",),
    "question_pairs": ("paired_prices",),
    "question_history": (
        *("open", "past", "is_only_question", "has_changed"),
        *("clairvoyant_forecasts", "crowd_of", "forecast_reason"),
    ),
}
# These are called without awaiting them, so the thread of the task waits.
BLOCKING_METHODS: Final = frozenset({"dialect", "series_names"})


def local_services(factory: ToolFactory) -> dict[str, Callable[..., Any]]:
    """Return everything that workers may call, as ``service.method``."""
    found: dict[str, Callable[..., Any]] = {"fetcher.fetch": factory.fetcher.fetch}
    if factory.models is not None:
        models = factory.models
        found |= {"models.dialect": models.dialect, "models.ask": models.ask, "models.grade": models.grade}
    for name, methods in LEDGER_METHODS.items():
        found |= {f"{name}.{method}": getattr(getattr(factory.ledger, name), method) for method in methods}
    for engine in factory.search_engines:
        found[f"engine {engine.name}.search"] = engine.engine.search
    for name, series in factory.data_sources.items():
        found[f"data {name}.series"] = series.source.series
        found[f"data {name}.series_names"] = series.source.series_names
    for name, pages in factory.page_sources.items():
        found[f"pages {name}.page_headings"] = pages.source.page_headings
        found[f"pages {name}.section"] = pages.source.section
    return found


@dataclass(frozen=True, slots=True)
class RemoteService:
    """A service of the first machine as a worker sees it: each method is a call to there."""

    service: str

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """Return the method; which ones there are is decided on the first machine."""
        if method.startswith("_"):
            raise AttributeError(method)
        call = _call_and_block if method in BLOCKING_METHODS else _call_and_wait
        return partial(call, f"{self.service}.{method}")


@dataclass(frozen=True, slots=True)
class RemoteLedger:
    """The ledger as trials on a worker see it."""

    recordings: RemoteService = field(default_factory=partial(RemoteService, "recordings"))
    documents: RemoteService = field(default_factory=partial(RemoteService, "documents"))
    forecasts: RemoteService = field(default_factory=partial(RemoteService, "forecasts"))
    learning: RemoteService = field(default_factory=partial(RemoteService, "learning"))
    question_history: RemoteService = field(default_factory=partial(RemoteService, "question_history"))
    question_pairs: RemoteService = field(default_factory=partial(RemoteService, "question_pairs"))


def portable_factory(factory: ToolFactory) -> ToolFactory:
    """Return a factory for a worker: settings and rules as here, and services of the first machine."""
    remote: Callable[[str], Any] = RemoteService
    return replace(
        factory,
        fetcher=remote("fetcher"),
        # Replaced by a reader of the worker's own.
        reader=remote("none"),
        ledger=cast("Ledger", RemoteLedger()),
        search_engines=[replace(one, engine=remote(f"engine {one.name}")) for one in factory.search_engines],
        data_sources={name: replace(one, source=remote(f"data {name}")) for name, one in factory.data_sources.items()},
        page_sources={name: replace(one, source=remote(f"pages {name}")) for name, one in factory.page_sources.items()},
        models=None if factory.models is None else remote("models"),
    )


def pack_task(task: QuestionTask) -> bytes:
    """Return a task as a worker receives it; raises ConfigError for a forecaster that cannot leave its process."""
    subject, forecaster = task.subject, task.subject.configured_forecaster
    factory = portable_factory(subject.tool_factory) if isinstance(subject.tool_factory, ToolFactory) else None
    # A worker is given what was learned.
    portable = replace(task, subject=replace(subject, tool_factory=factory, fit_parameters=_learn_nothing))
    try:
        with _plugin_files_by_value():
            return pack_value((version(PROGRAM), portable))
    except Exception as error:
        message = (
            f"{forecaster.name} cannot run on workers, since it holds what only this process has "
            f"({describe_foreign_error(error)}); run it without --workers and --cluster"
        )
        raise ConfigError(message) from error


def pack_value(value: object) -> bytes:
    """Return a value as it travels; code of plugins that are files travels with it."""
    packed: bytes = cloudpickle.dumps(value)
    return packed


def _learn_nothing(_round: object) -> None:
    return None


class _plugin_files_by_value:  # noqa: N801 - a context manager
    """Ships the code of plugins that are files: workers cannot import it by name."""

    def __enter__(self) -> None:
        self._modules = [
            module
            for name, module in sys.modules.items()
            if name != "__main__" and getattr(module, "__spec__", module) is None and getattr(module, "__file__", None)
        ]
        for module in self._modules:
            cloudpickle.register_pickle_by_value(module)

    def __exit__(self, *_: object) -> None:
        for module in self._modules:
            cloudpickle.unregister_pickle_by_value(module)


# On a worker: the topic on which its task calls, and the answers that threads of this process wait for.
_TOPIC: ContextVar[str] = ContextVar("topic")
_AWAITED: dict[str, "Future[bytes]"] = {}
_NUMBERS = count()


def run_questions_on_worker(packed: bytes, questions: bytes, topic: str) -> bytes:
    """Run the trials of some questions in a thread of a worker, and return them packed."""
    expected, task = cloudpickle.loads(packed)
    if (found := version(PROGRAM)) != expected:
        message = f"a worker has {PROGRAM} {found}, this machine {expected}; install the same version there"
        raise ConfigError(message)
    _log_to_stderr()
    _TOPIC.set(topic)
    return pack_value(asyncio.run(_run_questions(task, cloudpickle.loads(questions))))


def _log_to_stderr() -> None:
    # Stdout of a local worker is that of the command, whose report may go there.
    if not structlog.is_configured():
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))


async def _run_questions(task: QuestionTask, questions: Sequence[Question]) -> list[Sequence[Trial]]:
    factory = task.subject.tool_factory
    if not isinstance(factory, ToolFactory):
        return [await task.run_trials(question) for question in questions]
    async with SubprocessPageReader() as reader:
        here = replace(task, subject=replace(task.subject, tool_factory=replace(factory, reader=reader)))
        return [await here.run_trials(question) for question in questions]


def _send_call(
    method: str, arguments: tuple[object, ...], options: Mapping[str, object]
) -> tuple[str, "Future[bytes]"]:
    worker = get_worker()
    name = f"{worker.address} {os.getpid()} {next(_NUMBERS)}"
    answer = _AWAITED[name] = Future()
    body = pack_value((method, arguments, options))
    worker.log_event(_TOPIC.get(), {"call": name, "worker": worker.address, "body": body})
    return name, answer


async def _call_and_wait(method: str, *arguments: object, **options: object) -> object:
    name, answer = _send_call(method, arguments, options)
    waiting = asyncio.wrap_future(answer)
    try:
        while not (await asyncio.wait({waiting}, timeout=LOOK_EVERY_S))[0]:
            _require_wanted()
    finally:
        _AWAITED.pop(name, None)
        waiting.cancel()
    return unpack_answer(waiting.result())


def _call_and_block(method: str, *arguments: object, **options: object) -> object:
    name, answer = _send_call(method, arguments, options)
    try:
        while True:
            try:
                return unpack_answer(answer.result(timeout=LOOK_EVERY_S))
            except TimeoutError:
                _require_wanted()
    finally:
        _AWAITED.pop(name, None)


def _require_wanted() -> None:
    """Raise ServiceUnavailableError once the first machine has left: its task is not wanted any more."""
    worker = get_worker()
    state = worker.state.tasks.get(worker.get_current_task())
    if state is None or state.state == "cancelled":
        message = "the machine that began this backtest is gone"
        raise ServiceUnavailableError(message)


def deliver_answer(name: str, body: bytes) -> None:
    """Give a thread of this worker the answer to its call; a call that was given up needs none."""
    if (answer := _AWAITED.pop(name, None)) is not None:
        try:
            answer.set_result(body)
        except InvalidStateError:
            return


def pack_error(error: FoxcastError) -> bytes:
    """Return an error as the answer to a call."""
    # By its parts: not every error can be made from its message alone.
    return pack_value((None, (type(error), str(error), vars(error))))


def unpack_answer(body: bytes) -> object:
    """Return the result of a call, or raise its error."""
    value, fault = cloudpickle.loads(body)
    if fault is None:
        return value
    kind, text, attributes = fault
    error = kind.__new__(kind)
    error.args = (text,)
    error.__dict__.update(attributes)
    raise error


@dataclass(frozen=True, slots=True)
class ClusterExecutor:
    """Runs questions on the workers of a cluster, and serves their calls; ``topic`` is where they call."""

    client: Client
    topic: str
    services: dict[str, Callable[..., Any]] = field(default_factory=dict)
    open_calls: set["asyncio.Task[None]"] = field(default_factory=set)

    async def run_questions(self, task: QuestionTask, questions: Sequence[Question]) -> Sequence[Sequence[Trial]]:
        """Return the trials of each question; those that only read what others said here run in this process."""
        factory = task.subject.tool_factory
        if factory is not None and not isinstance(factory, ToolFactory):
            return await LocalExecutor().run_questions(task, questions)
        if factory is not None:
            self.services.update(local_services(factory))
        # Given as the result of a task, which Dask makes again where it was lost.
        packed = self.client.submit(_same_bytes, pack_task(task), pure=False)
        threads = sum((await _result(self.client.nthreads())).values())
        size = 1 if task.subject.configured_forecaster.uses_models else QUESTIONS_PER_TASK
        parts = [questions[at : at + size] for at in range(0, len(questions), size)]
        run = partial(self._run_part, packed)
        found = await map_concurrently(run, parts, places=max(1, threads * TASKS_PER_THREAD))
        return [trials for part in found for trials in part]

    async def _run_part(self, packed: object, questions: Sequence[Question]) -> Sequence[Sequence[Trial]]:
        refs = questions[0].ref if len(questions) == 1 else f"{questions[0].ref} and {len(questions) - 1} others"
        with _plugin_files_by_value():
            asked = pack_value(list(questions))
        future = self.client.submit(run_questions_on_worker, packed, asked, self.topic, pure=False)
        try:
            found: Sequence[Sequence[Trial]] = cloudpickle.loads(await _result(future.result()))
        except FoxcastError:
            raise
        except KilledWorker as error:
            message = f"workers died again and again while they forecast {refs}; see their logs, and run this again"
            raise ServiceUnavailableError(message) from error
        except Exception as error:
            message = (
                f"a worker failed at {refs}: {describe_foreign_error(error)}; is {PROGRAM} {version(PROGRAM)} with the "
                "same plugins installed there?"
            )
            raise MalformedDataError(message) from error
        finally:
            await _result(future.cancel())
        return found

    def serve_call(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Begin to answer a call of a worker."""
        task = asyncio.get_running_loop().create_task(self._answer_call(event[1]))
        self.open_calls.add(task)
        task.add_done_callback(self.open_calls.discard)

    async def _answer_call(self, message: Mapping[str, Any]) -> None:
        answer = await self.perform_call(message["body"])
        try:
            await _result(
                self.client.run(deliver_answer, message["call"], answer, workers=[message["worker"]], on_error="return")
            )
        except Exception as error:  # noqa: BLE001 - a worker that died: its task asks again from elsewhere
            log.debug("a worker did not take its answer", worker=message["worker"], why=describe_foreign_error(error))

    def _find_service(self, method: str) -> Callable[..., Any]:
        if method not in self.services:
            message = f"workers may not call {method}"
            raise ConfigError(message)
        return self.services[method]

    async def perform_call(self, body: bytes) -> bytes:
        """Return the packed result of a call, or its error, which the worker raises."""
        try:
            method, arguments, options = cloudpickle.loads(body)
            value = self._find_service(method)(*arguments, **options)
            return pack_value((await value if asyncio.iscoroutine(value) else value, None))
        except FoxcastError as error:
            return pack_error(error)
        except Exception as error:  # noqa: BLE001 - foreign code: as run_with_timeout does
            return pack_error(MalformedDataError(f"a call of a worker failed: {describe_foreign_error(error)}"))


def _same_bytes(packed: bytes) -> bytes:
    return packed


async def _result(value: Any) -> Any:  # noqa: ANN401 - Dask returns the one or the other
    return await value if asyncio.iscoroutine(value) or isinstance(value, asyncio.Future) else value


@asynccontextmanager
async def open_cluster(address: str | None, *, workers: int, threads: int) -> AsyncIterator[ClusterExecutor]:
    """Connect to a scheduler, or without an address start local workers, each for so many questions at a time.

    Raises ServiceUnavailableError if no scheduler answers, or it has no worker.
    """
    # Its notes on connections are many; what matters is raised.
    logging.getLogger("distributed").setLevel(logging.ERROR)
    if address is not None:
        async with _connect(address) as client, _serve(client) as executor:
            yield executor
        return
    with dask.config.set(LOCAL_CONFIG):
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            asynchronous=True,
            # A scheduler runs code for everybody who can reach it: here each connection needs a certificate that only
            # this process and its workers have.
            security=True,
            host=LOOPBACK,
            dashboard_address=f"{LOOPBACK}:0",
        )
        async with cluster as started, Client(started, asynchronous=True) as client, _serve(client) as executor:
            yield executor


@asynccontextmanager
async def _connect(address: str) -> AsyncIterator[Client]:
    client = Client(address, asynchronous=True, timeout=CONNECT_TIMEOUT_S)
    try:
        await client
    except (OSError, TimeoutError, ValueError) as error:
        await _result(client.close(timeout=1.0))
        message = f"no Dask scheduler answers at {address}; start one with: dask scheduler"
        raise ServiceUnavailableError(message) from error
    async with client:
        try:
            await _result(client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_S))
        except TimeoutError as error:
            message = f"the scheduler at {address} has no worker; start one with: dask worker {address}"
            raise ServiceUnavailableError(message) from error
        yield client


@asynccontextmanager
async def _serve(client: Client) -> AsyncIterator[ClusterExecutor]:
    executor = ClusterExecutor(client=client, topic=f"{PROGRAM} {client.id}")
    client.subscribe_topic(executor.topic, executor.serve_call)
    try:
        yield executor
    finally:
        # What is still asked is of tasks that were given up.
        left = [*executor.open_calls]
        for call in left:
            call.cancel()
        await asyncio.gather(*left, return_exceptions=True)
