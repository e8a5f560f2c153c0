"""The kits of forecasters, notifiers and commands: each way to break one must fail the check named with it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
import typer
from pydantic import SecretStr

from bot.api import (
    Belief,
    BinaryPrediction,
    BinaryShape,
    CommandSpec,
    Forecaster,
    ForecasterSpec,
    NotificationChannel,
    NotificationMessage,
    NotifierSpec,
    PluginContext,
    PluginSettings,
    Question,
    ServiceUnavailableError,
    Step,
    StepAction,
    StepObservation,
    TrialContext,
)
from bot.testing.clock import FakeClock
from bot.testing.command_contract import CommandContract
from bot.testing.forecaster_contract import SAMPLE_QUESTIONS, ForecasterContract
from bot.testing.http import FakeHttpClient
from bot.testing.notifier_contract import NotifierContract
from tests.unit.testing.correct_venue import Failure, checks_of, run_check

BINARY = tuple(question for question in SAMPLE_QUESTIONS if isinstance(question.shape, BinaryShape))
Trial = Callable[[Question], list[Step]]


def step(question: Question, probability: float = 0.6, **changes: Any) -> Step:
    belief = Belief(predictions={target.key: BinaryPrediction(probability) for target in question.targets})
    return Step(action=StepAction(name="guess"), observation=StepObservation(), belief=replace(belief, **changes))


def forecaster_spec(trial: Trial, **changes: Any) -> ForecasterSpec[PluginSettings]:
    class SmallForecaster:
        async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
            for made in trial(question):
                yield made

    @asynccontextmanager
    async def open_forecaster(settings: PluginSettings, context: PluginContext) -> AsyncIterator[Forecaster]:
        yield SmallForecaster()

    return ForecasterSpec(
        name="small", summary="Small", settings=PluginSettings, open=open_forecaster, steps=lambda _: 1, **changes
    )


def forecaster_kit(trial: Trial) -> ForecasterContract:
    class Kit(ForecasterContract):
        spec = forecaster_spec(trial)
        settings = PluginSettings()
        questions: ClassVar = BINARY

    return Kit()


class CountingTrial:
    """Answers otherwise each time."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, question: Question) -> list[Step]:
        self.count += 1
        return [step(question, 1 / (1 + self.count))]


FORECASTER_FAULTS: list[tuple[str, Trial, str]] = [
    (
        "every_belief_answers_the_whole_question",
        lambda one: [step(one, predictions={"outcome": BinaryPrediction(0.5)})],
        "one prediction for each of Question.targets",
    ),
    ("a_trial_ends_with_a_stated_belief", lambda one: [step(one, stated=False)], "is not stated"),
    ("a_trial_ends_with_a_stated_belief", lambda _: [], "has no step"),
    ("it_takes_no_more_steps_than_it_says", lambda one: [step(one), step(one)], "says at most 1"),
    ("the_same_trial_gives_the_same_beliefs", CountingTrial(), "cannot be replayed"),
]


@pytest.fixture
def context(tmp_path: Path) -> PluginContext:
    return PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)


@pytest.mark.parametrize("check", checks_of(ForecasterContract))
async def test_a_sound_forecaster_passes(check: str, context: PluginContext) -> None:
    await run_check(forecaster_kit(lambda one: [step(one)]), check, context=context)


@pytest.mark.parametrize(("check", "trial", "words"), FORECASTER_FAULTS)
async def test_a_fault_of_a_forecaster_is_named(check: str, trial: Trial, words: str, context: PluginContext) -> None:
    with pytest.raises(Failure, match=words):
        await run_check(forecaster_kit(trial), check, context=context)


async def test_a_forecaster_without_a_first_step_cannot_be_stopped(context: PluginContext) -> None:
    with pytest.raises(StopAsyncIteration):
        await run_check(forecaster_kit(lambda _: []), "it_can_be_stopped_at_any_step", context=context)


class SmallNotifierSettings(PluginSettings):
    token: SecretStr = SecretStr("do-not-show-me")


class SoundChannel:
    """Posts everything."""

    def __init__(self, context: PluginContext) -> None:
        self.http, self.token = context.http, "do-not-show-me"

    async def notify(self, message: NotificationMessage) -> None:
        await self.post({"title": message.subject, "text": message.text})

    async def post(self, body: Any) -> None:
        await self.http.post("https://bell.example", body, max_bytes=100, headers={"X-Key": self.token})


class SubjectOnly(SoundChannel):
    async def notify(self, message: NotificationMessage) -> None:
        await self.post({"title": message.subject})


class SwallowedErrors(SoundChannel):
    async def post(self, body: Any) -> None:
        try:
            await super().post(body)
        except ServiceUnavailableError:
            return


class SecretInErrors(SoundChannel):
    async def post(self, body: Any) -> None:
        try:
            await super().post(body)
        except Exception as error:
            error.args = (f"refused with {self.token}",)
            raise


class SecretNotSent(SoundChannel):
    async def post(self, body: Any) -> None:
        await self.http.post("https://bell.example", body, max_bytes=100)


def notifier_kit(channel: type[SoundChannel]) -> NotifierContract:
    @asynccontextmanager
    async def open_channel(
        settings: SmallNotifierSettings, context: PluginContext
    ) -> AsyncIterator[NotificationChannel]:
        yield channel(context)

    class Kit(NotifierContract):
        spec = NotifierSpec(name="bell", summary="A bell", settings=SmallNotifierSettings, open=open_channel)
        settings = SmallNotifierSettings()
        secret = "do-not-show-me"  # noqa: S105 - looked for in what is sent

    return Kit()


@pytest.mark.parametrize("check", checks_of(NotifierContract))
async def test_a_sound_notifier_passes(check: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    error = ServiceUnavailableError("503")
    await run_check(notifier_kit(SoundChannel), check, tmp_path=tmp_path, caplog=caplog, error=error)


@pytest.mark.parametrize(
    ("check", "channel", "words"),
    [
        ("a_message_is_sent_whole", SubjectOnly, "NotificationMessage.text was not sent whole"),
        ("a_failure_is_raised", SwallowedErrors, "swallowed it"),
        ("the_secret_is_shown_nowhere", SecretInErrors, "in a repr, an error or a log"),
        ("the_secret_is_shown_nowhere", SecretNotSent, "is not sent"),
    ],
)
async def test_a_fault_of_a_notifier_is_named(
    check: str, channel: type[SoundChannel], words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    error = ServiceUnavailableError("503")
    with pytest.raises(Failure, match=words):
        await run_check(notifier_kit(channel), check, tmp_path=tmp_path, caplog=caplog, error=error)


def greet(name: Annotated[str, typer.Argument(help="Who is greeted.")]) -> None:
    typer.echo(f"hello {name}")


def greet_silently(name: Annotated[str, typer.Argument()]) -> None:
    typer.echo(name)


def greet_untyped(name="fox") -> None:  # type: ignore[no-untyped-def] # noqa: ANN001 - the fault
    typer.echo(name)


async def greet_later() -> None:
    typer.echo("hello")


def command_kit(run: Callable[..., Any]) -> CommandContract:
    class Kit(CommandContract):
        spec = CommandSpec(name="greet", summary="Greet a fox", run=run)

    return Kit()


@pytest.mark.parametrize("check", checks_of(CommandContract))
async def test_a_sound_command_passes(check: str) -> None:
    await run_check(command_kit(greet), check)


def test_a_command_is_called_as_a_person_calls_it() -> None:
    assert command_kit(greet).run("fox") == "hello fox\n"
    with pytest.raises(AssertionError, match="exit code 2"):
        command_kit(greet).run()


@pytest.mark.parametrize(
    ("check", "run", "words"),
    [
        ("every_parameter_is_annotated_and_explained", greet_silently, "name has no help text"),
        ("every_parameter_is_annotated_and_explained", greet_untyped, "name has no annotation"),
        ("a_function_that_waits_is_never_run", greet_later, "asyncio.run"),
    ],
)
async def test_a_fault_of_a_command_is_named(check: str, run: Callable[..., Any], words: str) -> None:
    with pytest.raises(Failure, match=words):
        await run_check(command_kit(run), check)
