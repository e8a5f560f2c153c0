"""Which question a name or an address means, who forecasts it, and what stands beside."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.app.app import open_app
from bot.cli.forecast import choose_forecaster, clairvoyance_remark, free_forecasters
from bot.cli.question_lookup import QuestionFinder, normalize_address, require_any_future_target
from bot.config.loader import load_config
from bot.config.schema import Config
from bot.core.errors import ConfigError, MalformedDataError, NotFoundError, RequestRejectedError, StateFolderLockedError
from bot.core.operator_requests import ForecastQuestion
from bot.core.predictions import BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.plugin_system.registry import load_registry
from bot.store.forecast_queries import read_forecast_status
from bot.store.ledger import state_folder
from bot.store.requests import send_request
from bot.testing.clock import FakeClock

PLUGIN = """
from contextlib import asynccontextmanager
from dataclasses import replace
from bot.api import (BinaryShape, ForecasterSpec, NotFoundError, PluginSettings, Question, QuestionRef,
                     RequestRejectedError, Target, VenueSpec, hookimpl)
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from bot.testing.venue import FakeVenueReader

def question(key, url):
    ref = QuestionRef("quay", key)
    return Question(ref=ref, title=key, shape=BinaryShape(), targets=(Target(),), url=url)

@asynccontextmanager
async def open_quay(settings, workplace):
    yield FakeVenueReader([question("lamp", "https://www.quay.example/q/lamp/"), question("a", "https://quay.example/2"),
                       question("b", "https://quay.example/2")])

class Pier(FakeVenueReader):
    async def find_question(self, name):
        if name in {"mole", "mole-7", "https://pier.example/mole"}:
            return replace(question("mole-7", "https://pier.example/mole"), ref=QuestionRef("pier", "mole-7"))
        if name in {"buoy", "https://pier.example/buoy"}:
            return question("lamp", "https://pier.example/buoy")
        if name == "over":
            raise RequestRejectedError("over cannot be forecast: it is closed")
        raise NotFoundError(f"{name} is none of the pier's")

@asynccontextmanager
async def open_pier(settings, workplace):
    yield Pier()

@asynccontextmanager
async def open_one(settings, workplace):
    yield ScriptedForecaster(believe_yes(0.3))

@hookimpl
def foxcast_venues():
    return [VenueSpec(name=name, summary=name, settings=PluginSettings, reader=reader, hosts=(f"{name}.example",))
            for name, reader in (("quay", open_quay), ("pier", open_pier))]

@hookimpl
def foxcast_forecasters():
    asks = ("main",)
    return [ForecasterSpec(name=name, summary=name, settings=PluginSettings, open=open_one, optional_roles=roles)
            for name, roles in (("keeper", ()), ("pilot", asks), ("other", asks), ("watch", ()))]
"""
CONFIG = """
plugins = ["quay"]
plugin_files = ["quay.py"]

[venues.quay]
forecasters = ["keeper", "other"]
"""
OWN = Question(ref=QuestionRef("file", "snow"), title="Snow?", shape=BinaryShape(), targets=(Target(),))

Configure = Callable[..., Config]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    def write(text: str = CONFIG) -> Config:
        (tmp_path / "quay.py").write_text(PLUGIN)
        (tmp_path / "config.toml").write_text(text)
        return load_config(tmp_path / "config.toml", {})

    return write


def sources(config: Config) -> QuestionFinder:
    return QuestionFinder(config=config, registry=load_registry(config), clock=FakeClock())


async def discovered(config: Config) -> None:
    async with open_app(config, load_registry(config), clock=FakeClock()) as app:
        [job] = [job for job in app.jobs() if job.name == "discover quay"]
        await job.run()


async def test_an_address_is_read_from_the_venues_where_no_ledger_knows_it(configure: Configure) -> None:
    wanted = await sources(configure()).find_question("https://quay.example/q/lamp")
    assert (str(wanted.question.ref), wanted.needs_recording) == ("quay:lamp", True)


async def test_an_address_on_record_is_not_asked_for_again(configure: Configure) -> None:
    config = configure()
    await discovered(config)
    wanted = await sources(config).find_question("http://www.quay.example/q/lamp#comments")
    assert (str(wanted.question.ref), wanted.needs_recording) == ("quay:lamp", False)


async def test_an_address_of_several_questions_lists_them(configure: Configure) -> None:
    config = configure()
    await discovered(config)
    with pytest.raises(NotFoundError, match=r"several questions; name one of\n  quay:a\n  quay:b"):
        await sources(config).find_question("https://quay.example/2")


@pytest.mark.parametrize("name", ["https://quay.example/q/lam", "https://[::1"])
async def test_an_address_that_nobody_has_says_who_was_asked(configure: Configure, name: str) -> None:
    config = configure()
    await discovered(config)
    with pytest.raises(NotFoundError, match=f"{re.escape(name)}, and no question open now at quay"):
        await sources(config).find_question(name)


async def test_a_unique_part_of_a_key_is_enough(configure: Configure) -> None:
    config = configure()
    await discovered(config)
    assert str((await sources(config).find_question("lam")).question.ref) == "quay:lamp"


async def test_a_question_that_is_over_on_record_is_asked_of_its_venue_again(configure: Configure) -> None:
    config = configure(PIER)
    now = FakeClock().now()
    over = replace(OWN, ref=QuestionRef("pier", "mole-7"), closes_at=now - timedelta(days=1))
    gone = replace(over, ref=QuestionRef("pier", "over"))
    async with open_app(config, load_registry(config), clock=FakeClock()) as app:
        await app.ledger.questions.record([over, gone], seen_at=now)
    wanted = await sources(config).find_question("pier:mole-7")
    assert (wanted.question.title, wanted.question.closes_at, wanted.needs_recording) == ("mole-7", None, True)
    # Where it cannot be forecast there either, what the ledger says of it is told.
    assert (await sources(config).find_question("pier:over")).needs_recording is False


PIER = f'{CONFIG}[venues.pier]\nforecasters = ["keeper"]\n'


@pytest.mark.parametrize("name", ["buoy", "pier:buoy", "https://pier.example/buoy"])
async def test_a_venue_that_answers_with_the_question_of_another_one_is_refused(
    configure: Configure, name: str
) -> None:
    with pytest.raises(MalformedDataError, match="the reader of pier names quay:lamp, a question of another venue"):
        await sources(configure(PIER)).find_question(name)


@pytest.mark.parametrize("name", ["mole", "pier:mole", "https://pier.example/mole", " mole "])
async def test_a_name_that_no_ledger_knows_is_asked_of_the_venues_that_find(configure: Configure, name: str) -> None:
    for discovering in (False, True):
        config = configure(PIER)
        if discovering:
            await discovered(config)
        wanted = await sources(config).find_question(name)
        assert (str(wanted.question.ref), wanted.needs_recording) == ("pier:mole-7", True)


async def test_what_is_on_record_is_asked_of_nobody(configure: Configure) -> None:
    config = configure(PIER)
    await discovered(config)
    wanted = await sources(config).find_question("lamp")
    assert (str(wanted.question.ref), wanted.needs_recording) == ("quay:lamp", False)


async def test_why_a_venue_will_not_have_it_forecast_is_told(configure: Configure) -> None:
    with pytest.raises(RequestRejectedError, match="it is closed"):
        await sources(configure(PIER)).find_question("over")


async def test_a_name_that_nobody_has_says_who_was_asked(configure: Configure) -> None:
    with pytest.raises(NotFoundError, match="no question fits nothing in the ledger, nor at pier; list"):
        await sources(configure(PIER)).find_question("nothing")


async def test_words_of_a_title_are_asked_of_nobody(configure: Configure) -> None:
    with pytest.raises(NotFoundError, match="there is no ledger"):
        await sources(configure(PIER)).find_question("will the mole hold")


def test_addresses_are_the_same_but_for_what_changes_no_page() -> None:
    assert normalize_address("http://WWW.Quay.example/a/#x") == normalize_address("https://quay.example/a")
    assert normalize_address("https://quay.example/a?id=1") != normalize_address("https://quay.example/a?id=2")
    assert normalize_address("https://quay.example/A") != normalize_address("https://quay.example/a")


def test_who_asks_models_forecasts_and_those_of_the_venue_come_first(configure: Configure) -> None:
    config = configure()
    registry = load_registry(config)
    assert choose_forecaster(config, registry, "quay", requested=None) == "other"
    assert choose_forecaster(config, registry, "file", requested=None) == "pilot"
    assert choose_forecaster(config, registry, "file", requested="watch") == "watch"
    with pytest.raises(NotFoundError, match=r"forecaster piolt; did you mean pilot\?"):
        choose_forecaster(config, registry, "quay", requested="piolt")


def test_one_without_guards_is_only_taken_by_name(configure: Configure) -> None:
    config = configure(CONFIG + "\n[forecasters.other]\nclairvoyant = true\n[forecasters.watch]\nclairvoyant = true\n")
    registry = load_registry(config)
    assert choose_forecaster(config, registry, "quay", requested=None) == "pilot"
    assert choose_forecaster(config, registry, "quay", requested="other") == "other"
    told = clairvoyance_remark(config, registry, "quay", "pilot", requested=None)
    assert told == "other is clairvoyant, so pilot forecasts; to use other: --forecaster other"
    assert clairvoyance_remark(config, registry, "quay", "pilot", requested="pilot") is None
    assert "other is clairvoyant: it may use information" in str(
        clairvoyance_remark(config, registry, "quay", "other", requested="other")
    )
    # Nobody was passed over there.
    assert clairvoyance_remark(config, registry, "file", "pilot", requested=None) is None
    assert free_forecasters(config, registry, exclude="pilot") == ("keeper",)


def test_all_that_cost_nothing_stand_beside(configure: Configure) -> None:
    config = configure()
    assert free_forecasters(config, load_registry(config), exclude="keeper") == ("watch",)
    assert free_forecasters(config, load_registry(config), exclude="pilot") == ("keeper", "watch")


def test_without_a_forecaster_the_remedy_is_told_and_a_broken_plugin_is_blamed(
    configure: Configure, tmp_path: Path
) -> None:
    config = configure("")
    with pytest.raises(ConfigError, match="no forecaster is enabled: name a plugin"):
        choose_forecaster(config, load_registry(config), "file", requested=None)
    config = configure()
    (tmp_path / "quay.py").write_text("import nothing_of_this_name")
    with pytest.raises(ConfigError, match=r"no enabled plugin offers a forecaster pilot; .*nothing_of_this_name"):
        choose_forecaster(config, load_registry(config), "file", requested="pilot")


async def test_an_app_of_some_forecasters_alone_has_no_venue_and_nothing_can_leave(configure: Configure) -> None:
    config = configure()
    async with open_app(config, load_registry(config), clock=FakeClock(), only=("keeper", "watch")) as app:
        assert ([*app.forecasters], [*app.venues], [*app.execution_policies], app.gateway) == (
            ["keeper", "watch"],
            [],
            [],
            None,
        )
        assert app.folder == state_folder(config)
        with pytest.raises(StateFolderLockedError):
            async with open_app(config, load_registry(config), clock=FakeClock(), only=("keeper",)):
                pass


async def test_what_only_a_person_asked_for_is_not_forecast_again_by_itself(configure: Configure) -> None:
    config = configure(CONFIG.replace('"keeper", "other"', '"keeper", "watch"'))
    async with open_app(config, load_registry(config), clock=FakeClock()) as app:
        jobs = {job.name: job for job in app.jobs()}
        await jobs["discover quay"].run()
        now = app.clock.now()
        send_request(app.folder, ForecastQuestion(ref=OWN.ref, forecaster="keeper", question=OWN), at=now)
        await jobs["requests"].run()
        await jobs["forecast"].run()
        readers = app.ledger.forecasts.readers
        own = (await read_forecast_status(readers, OWN.ref, "keeper")).place
        regular = (await read_forecast_status(readers, QuestionRef("quay", "lamp"), "keeper")).place
    assert own is not None
    assert own.due_at is None
    assert regular is not None
    assert regular.due_at is not None


@pytest.mark.parametrize("cutoff", ["", "as_of = 2026-01-03\n"])
async def test_a_file_that_asks_about_the_past_is_refused_with_each_date(
    configure: Configure, tmp_path: Path, cutoff: str
) -> None:
    file = tmp_path / "q.toml"
    clock = FakeClock(datetime(2026, 1, 10, tzinfo=UTC))
    config = configure()
    house = QuestionFinder(config=config, registry=load_registry(config), clock=clock)
    file.write_text(f'title = "Rain?"\n{cutoff}targets = [2026-01-02, 2026-01-03, 2026-01-20]\n')
    with pytest.raises(MalformedDataError) as caught:
        await house.find_question(str(file))
    assert [line.split(": ")[1:3] for line in str(caught.value).splitlines()] == [
        ["targets", "2026-01-02"],
        ["targets", "2026-01-03"],
    ]
    assert ("set as_of" in str(caught.value)) is (not cutoff)
    file.write_text(f'title = "Rain?"\n{cutoff}targets = [2026-01-20]\n')
    assert (await house.find_question(str(file))).needs_recording


@pytest.mark.parametrize(
    ("days", "over"), [((2, 3), True), ((2, 20), False), ((None,), False), ((2, None), False), ((10,), True)]
)
def test_a_question_all_in_the_past_is_skipped(days: tuple[int | None, ...], over: bool) -> None:  # noqa: FBT001 - data
    now = datetime(2026, 1, 10, tzinfo=UTC)
    targets = [Target(key=str(day), resolves_at=None if day is None else now.replace(day=day)) for day in days]
    asked = replace(OWN, targets=tuple(targets))
    if not over:
        require_any_future_target(asked, now)
        return
    with pytest.raises(RequestRejectedError, match=r"file:snow is skipped: none of its dates is after 2026-01-10"):
        require_any_future_target(asked, now)
