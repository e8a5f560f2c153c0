"""Who forecasts a question may depend on its tags, tournament, category and source."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bot.app.venues import question_forecasters, venue_execution_policy, venue_forecasters
from bot.config.loader import load_config
from bot.config.venue_schema import ChooseTable, ExcludeSection, VenueTable
from bot.core.errors import ConfigError
from bot.core.predictions import BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.plugin_system.registry import direct_members, load_registry

HARBOUR = Path(__file__).parents[1] / "fake_reader_venue.py"
CHOICES: list[dict[str, Any]] = [
    {"tag": ["AI", "robots"], "tournament": "autumn", "forecasters": ["court"]},
    {"tag": "ai", "forecasters": ["team", "blf"]},
    {"category": "sports", "forecasters": ["solo"]},
    {"source": ["fred", "acled"], "forecasters": ["baseline"]},
]


def asked(venue: str = "harbour", category: str = "", **more: Any) -> Question:
    ref = QuestionRef(venue, "q")
    return Question(ref=ref, title="Will it?", shape=BinaryShape(), targets=(Target(),), category=category, **more)


TABLE = VenueTable.model_validate({"forecasters": ["blf", "baseline"], "choose": CHOICES})


@pytest.mark.parametrize(
    ("question", "who"),
    [
        (asked(), ("blf", "baseline")),
        (asked(tags=("politics",)), ("blf", "baseline")),
        (asked(tags=("politics", "ai")), ("team", "blf")),
        (asked(tags=("Robots",), tournaments=("spring", "Autumn")), ("court",)),
        (asked(tags=("robots",), tournaments=("spring",)), ("blf", "baseline")),
        (asked(tags=("ai",), category="sports"), ("team", "blf")),
        (asked(category="Sports"), ("solo",)),
        (asked(source="acled"), ("baseline",)),
    ],
)
def test_the_first_table_that_fits_counts_and_otherwise_the_list_of_the_venue(
    question: Question, who: tuple[str, ...]
) -> None:
    assert TABLE.forecasters_of(question) == who


def test_everyone_who_forecasts_something_is_known() -> None:
    assert TABLE.all_forecasters == ("blf", "baseline", "court", "team", "solo")


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([{"tag": "ai"}, {"tag": "AI"}], r"choose\[1\] is never reached: all its questions match choose\[0\]"),
        ([{"tag": ["ai", "b"]}, {"source": "s"}, {"tag": "ai", "source": "s"}], r"choose\[2\] .* match choose\[0\]"),
        ([{"source": "s"}, {"tag": "ai"}, {"tag": "ai", "tournament": "autumn"}], r"choose\[2\] .* match choose\[1\]"),
    ],
)
def test_a_table_that_is_never_reached_is_refused(tables: list[dict[str, Any]], said: str) -> None:
    choose = [{**table, "forecasters": ["blf"]} for table in tables]
    with pytest.raises(ValidationError, match=said):
        VenueTable.model_validate({"forecasters": ["blf"], "choose": choose})


LETTERS = ("a", "b", "c")
TABLES = st.fixed_dictionaries(
    {key: st.lists(st.sampled_from(LETTERS), max_size=2) for key in ("tag", "tournament", "category", "source")}
).filter(lambda table: any(table.values()))
# Every way to file a question under at most one word of each kind.
FILED = [
    asked(tags=tags, tournaments=tournaments, category=category, source=source)
    for tags, tournaments in product([(), *((letter,) for letter in LETTERS)], repeat=2)
    for category, source in product(["", *LETTERS], repeat=2)
]


@given(earlier=TABLES, later=TABLES)
def test_a_table_covers_another_where_no_question_fits_that_one_alone(
    earlier: dict[str, list[str]], later: dict[str, list[str]]
) -> None:
    first, second = (ChooseTable.model_validate({**table, "forecasters": ["blf"]}) for table in (earlier, later))
    assert first.covers(second) == all(first.matches(question) for question in FILED if second.matches(question))


VOICES = """
from contextlib import asynccontextmanager
from bot.api import ForecasterSpec, PluginSettings, hookimpl
from bot.testing.forecaster import ScriptedForecaster

@asynccontextmanager
async def opened(settings, workplace):
    yield ScriptedForecaster()

@hookimpl
def foxcast_forecasters():
    names = ("pilot", "watch")
    return [ForecasterSpec(name=name, summary="A voice", settings=PluginSettings, open=opened) for name in names]
"""
CONFIG = """
plugins = ["blend", "fake_reader_venue", "voices"]
plugin_files = ["voices.py", "HARBOUR"]

[venues.harbour]
forecasters = ["keeper"]

[[venues.harbour.choose]]
tag = "lamps"
forecasters = ["FIRST", "watch"]

[forecasters.blend.settings]
members = ["pilot", "watch"]
"""


def loaded(folder: Path, first: str, more: str = "") -> Any:
    (folder / "voices.py").write_text(VOICES)
    (folder / "config.toml").write_text(CONFIG.replace("HARBOUR", str(HARBOUR)).replace("FIRST", first) + more)
    config = load_config(folder / "config.toml", {})
    return config, load_registry(config)


def test_who_is_chosen_is_open_with_all_that_it_builds_on(tmp_path: Path) -> None:
    config, registry = loaded(tmp_path, "blend")
    assert venue_forecasters(config, registry, "harbour") == ("keeper", "blend", "watch", "pilot")
    assert question_forecasters(config, registry, asked()) == ("keeper",)
    assert question_forecasters(config, registry, asked(tags=("lamps",))) == ("blend", "watch", "pilot")
    assert question_forecasters(config, registry, asked("elsewhere")) == ()


def test_words_in_a_file_are_one_or_a_list_and_what_is_never_reached_is_refused(tmp_path: Path) -> None:
    several = '\n[[venues.harbour.choose]]\ntag = ["boats", "tides"]\nsource = "pier"\nforecasters = ["pilot"]\n'
    config, registry = loaded(tmp_path, "watch", several)
    assert question_forecasters(config, registry, asked(tags=("tides",), source="pier")) == ("pilot",)
    with pytest.raises(ConfigError, match=r"choose\[2\] is never reached: all its questions match choose\[1\]"):
        loaded(tmp_path, "watch", several + several)


def test_the_forecast_of_the_first_who_is_chosen_leaves(tmp_path: Path) -> None:
    config, registry = loaded(tmp_path, "pilot")
    lane = venue_execution_policy(config, registry, "harbour")
    assert lane.submitting_forecaster(asked()) == "keeper"
    assert lane.submitting_forecaster(asked(tags=("lamps",))) == "pilot"


def test_a_name_that_nobody_has_is_refused_with_its_place_and_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"venues\.harbour\.choose\[0\]\.forecasters\[0\].*did you mean pilot\?"):
        loaded(tmp_path, "piolt")


def test_a_table_that_chooses_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="set tag, tournament, category or source"):
        loaded(tmp_path, "pilot", '\n[[venues.harbour.choose]]\nforecasters = ["watch"]\n')


def test_a_clairvoyant_may_not_lead_where_it_is_chosen(tmp_path: Path) -> None:
    config, registry = loaded(tmp_path, "seer", '\n[forecasters.seer]\nuses = "pilot"\nclairvoyant = true\n')
    with pytest.raises(ConfigError, match=r"choose\[0\]\.forecasters\[0\]: seer is clairvoyant"):
        venue_execution_policy(config, registry, "harbour")


def test_a_member_whose_plugin_is_broken_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text("import nothing_of_this_name")
    config, _ = loaded(tmp_path, "keeper")
    text = (tmp_path / "config.toml").read_text()
    text = (
        text.replace('"voices"]', '"odd"]').replace('"voices.py"', '"odd.py"').replace('"keeper", "watch"', '"blend"')
    )
    (tmp_path / "config.toml").write_text(text)
    config = load_config(tmp_path / "config.toml", {})
    assert direct_members(config, load_registry(config), "blend") == ()


def about(title: str = "Will the minister resign?", **more: Any) -> Question:
    ref = QuestionRef("harbour", "m1/a7")
    names = {"market": "m1", "slug": "minister-out", "creator": "u9", "creator_name": "Ann", "label": "By May", **more}
    return Question(ref=ref, title=title, shape=BinaryShape(), targets=(Target(),), tags=("uk-politics",), **names)


@pytest.mark.parametrize(
    ("exclude", "why"),
    [
        ({}, None),
        ({"topics": ["UK-Politics", "ai"]}, "excluded by topics = 'uk-politics' in config"),
        ({"topics": "politics"}, None),
        ({"creators": "u9"}, "excluded by creators = 'u9' in config"),
        ({"creators": ["bob", "ann"]}, "excluded by creators = 'ann' in config"),
        ({"questions": "m1"}, "excluded by questions = 'm1' in config"),
        ({"questions": "minister-out"}, "excluded by questions = 'minister-out' in config"),
        ({"questions": "harbour:m1/a7"}, "excluded by questions = 'harbour:m1/a7' in config"),
        ({"questions": "m1/a8"}, None),
        ({"words": "Resign"}, "excluded by words = 'Resign' in config"),
        ({"words": "by may"}, "excluded by words = 'by may' in config"),
        ({"words": ["mini", "sign"]}, None),
    ],
)
def test_a_question_is_left_out_by_what_config_names(exclude: dict[str, Any], why: str | None) -> None:
    assert ExcludeSection.model_validate(exclude).exclusion_reason(about()) == why


def test_nobody_forecasts_what_is_excluded(tmp_path: Path) -> None:
    config, registry = loaded(tmp_path, "pilot", '\n[venues.harbour.exclude]\nwords = ["resign"]\n')
    assert question_forecasters(config, registry, about("Will the minister stay?"))
    assert question_forecasters(config, registry, about()) == ()
