"""Scenario files: those that ship, the errors of those that do not hold together, and where each fault stands."""

import json
import tomllib
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # ships none
import pytest
from pydantic import ValidationError

from bot.core.errors import ConfigError, NotFoundError
from plugins.society.scenario import CourtScenario, MessageKind, MoveAction, expand_loops
from plugins.society.scenario_files import (
    find_warnings,
    load_shipped_scenario,
    parse_scenario,
    read_scenario_file,
    read_shipped_text,
)
from plugins.society.settings import CourtSettings, count_moves

SMALL = """\
[loops]
talk = 2

[[agents]]
name = "head"
capabilities = { web_retrieval = true }

[[agents]]
name = "user"
capabilities = { llm = false }

[[agents]]
name = "clerk"
[agents.jury_selection]
prompt_template = "You are {profile}"

[[steps]]
action = "generate_jury"
agent = "clerk"
store = "jury"

[[steps]]
step = 1
loop = "talk"
action = "message"
initiator = "user"
receiver = "head"
message = "Go on: {word}"
store = "word"

[[steps]]
step = 3
name = "verdict"
action = "message"
kind = "vote"
initiator = "user"
receiver = "jury"
message = "Vote on {word}."
"""


def places(name: str) -> dict[int, tuple[str, str | None, str | None]]:
    return {
        at.place: (at.move.action, at.move.kind, at.move.receiver) for at in expand_loops(load_shipped_scenario(name))
    }


def test_the_published_scenario_has_its_ten_steps_in_order() -> None:
    # The authors' public scenarios: jury, query, search, ranking, summary, rules, two openings, votes, synthesis.
    assert [(action, receiver) for action, _, receiver in places("ten").values()] == [
        ("generate_jury", None),
        ("message", "head"),
        ("web_search", None),
        ("process_articles", None),
        ("message", "head"),
        ("message", "judge"),
        ("message", "prosecution"),
        ("message", "defence"),
        ("message", "jury"),
        ("message", "judge"),
    ]
    ten = load_shipped_scenario("ten")
    assert [ten.steps[2].num_results, ten.steps[3].num_top_articles, ten.steps[0].num_jurors] == [20, 6, 3]


def test_the_full_scenario_is_divided_as_the_paper_says() -> None:
    # Li et al. (2024), 3.4: steps 0 to 27; retrieval 0-2, agents 3, judge 4, arguments 5-22, jury 23-26, end 27.
    full = places("full")
    assert list(full) == list(range(28))
    assert [full[place][0] for place in (1, 2, 3)] == ["web_search", "process_articles", "generate_jury"]
    assert full[4][2] == "judge"
    assert [full[place][2] for place in range(5, 23)] == ["prosecution", "defence"] * 9
    assert {full[place][1] for place in range(5, 23)} == {MessageKind.ARGUMENT}
    assert [full[place][1] for place in (23, 24, 25)] == [MessageKind.VOTE, MessageKind.DELIBERATION, MessageKind.VOTE]
    assert full[26][0] == MoveAction.TALLY
    assert full[27][1:] == (MessageKind.SYNTHESIS, "judge")


@pytest.mark.parametrize("name", ["ten", "full"])
def test_the_clerk_has_requirements_of_all_four_kinds(name: str) -> None:
    (clerk,) = [agent for agent in load_shipped_scenario(name).agents if agent.jury_selection is not None]
    assert clerk.jury_selection is not None
    told = clerk.jury_selection.requirements
    assert all((told.demographic, told.expertise, told.socioeconomic, told.geographic))


@pytest.mark.parametrize("name", ["ten", "full"])
def test_what_ships_fits_the_schema_that_is_given_out(name: str) -> None:
    jsonschema.validate(tomllib.loads(read_shipped_text(name)), CourtScenario.model_json_schema())


def test_there_is_no_other_scenario() -> None:
    with pytest.raises(NotFoundError, match="did you mean full"):
        load_shipped_scenario("ful")


def test_a_jurors_word_and_an_answer_in_an_exchange_are_moves_of_their_own() -> None:
    assert count_moves(parse_scenario(SMALL, "small.toml")) == 1 + 2 + 3
    twice = SMALL.replace('receiver = "head"', 'receiver = "head"\nmax_turns = 2').replace(
        '"user"\nreceiver = "h', '"clerk"\nreceiver = "h'
    )
    assert count_moves(parse_scenario(twice, "small.toml")) == 1 + 2 * 3 + 3


LAST = "[[steps]]\nstep = 3"


@pytest.mark.parametrize(
    ("old", "new", "at", "told"),
    [
        ("{word}.", "{wrod}.", "", "steps[2].message: nothing fills the placeholder {wrod}; did you mean word?"),
        ('name = "verdict"', 'nmae = "verdict"', "", "steps[2].nmae: there is no such key; did you mean name?"),
        ('receiver = "head"', 'receiver = "haed"', "", "steps[1].receiver: there is no agent haed; did you mean head?"),
        ('receiver = "head"', 'receiver = "user"', "", "steps[1].receiver: user cannot answer: its capability llm is"),
        ("step = 3", "step = 2", "", "steps[2].step: says 2, but this step is number 3, counted from 0"),
        ('message = "Vote on {word}."', "", LAST, "steps[2].message: is missing; a step with the action message"),
        ('"generate_jury"', '"tally"', 'receiver = "jury"', "steps[2].receiver: there is no jury yet"),
        ('kind = "vote"', 'kind = "synthesis"', "", "steps[2].kind: jurors are asked for text, deliberation or vote"),
        ('kind = "vote"', 'kind = "text"', "[[steps]]", "steps: no step asks for an answer"),
        ('name = "user"', 'name = "head"', '"head"\ncapabilities = { llm', "agents[1].name: is the name of two agents"),
        ("talk = 2", 'talk = "2"', "", "loops.talk: should be a valid integer"),
        ("talk = 2", "talk = true", "", "loops.talk: should be a valid integer"),
        ("step = 3", "step = true", "", "steps[2].step: should be a valid integer"),
        ("web_retrieval = true", 'web_retrieval = "yes"', "", "agents[0].capabilities.web_retrieval: should be"),
        ('name = "verdict"', "instruction = true", "", "steps[2].instruction: only the answer of one agent to a"),
        ('name = "verdict"', "silent = 1", "", "steps[2].silent: should be a valid boolean"),
        ('name = "user"', 'name = "juror_1"', "", "agents[1].name: is kept for the jurors"),
        ('loop = "talk"', 'loop = "tlak"', "", "steps[1].loop: there is no loop tlak under loops; did you mean talk?"),
        ("talk = 2", "talk = 2\nmore = 1", "more", "loops.more: no step is part of this loop"),
        ("talk = 2", 'talk = "often"', "", "loops.talk: should be a valid integer"),
        ("[loops]", 'values = { a = "{b}", b = "{a}" }\n[loops]', "values", "values.a: holds itself: a -> b -> a"),
        ('action = "generate_jury"', 'action = "generate"', "", "steps[0].action: should be"),
        ('agent = "clerk"', 'agent = "head"', "", "steps[0].agent: head needs the capability llm and a jury_selection"),
        ('kind = "vote"', 'kind = "vote"\nmax_turns = 3', "max_turns", "steps[2].max_turns: more than one turn needs"),
        ('agent = "clerk"\nstore = "jury"', 'agent = "clerk"\n[[steps]]\naction = "generate_jury"\nagent = "clerk"',
         'action = "generate_jury"\nagent = "clerk"\n\n', "steps[1].action: a trial has one jury"),
        ('name = "clerk"', 'name = "The Clerk"', "", "agents[2].name: should be lower-case letters"),
        ('receiver = "head"', 'receiver = "head"\nkind = "vote"', "kind", "steps[1].kind: a vote is asked of the"),
        ('name = "verdict"', 'name = "word"\naction = "tally"\n[[steps]]\nname = "word"', "",
         "steps[2].name: word is the name of more than one step"),
        ('action = "generate_jury"\nagent = "clerk"', 'action = "process_articles"\nagent = "clerk"', 'agent = "clerk"',
         "steps[0].agent: clerk needs the capabilities web_retrieval and llm"),
        (LAST, f'[[steps]]\naction = "tally"\n{LAST}\nloop = "talk"', 'loop = "talk"\nname', "steps[3].loop: the step"),
        ('agent = "clerk"', 'agent = "clerk"\nnum_jurors = 26', "num_jurors", "steps[0].num_jurors: should be less"),
        ('action = "generate_jury"\nagent = "clerk"', 'action = "web_search"\nagent = "clerk"\nquery = "a"',
         'agent = "clerk"', "steps[0].agent: clerk may not search: its capability web_retrieval is off"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_file_line_and_key(old: str, new: str, at: str, told: str) -> None:
    text = SMALL.replace(old, new, 1)
    line = 1 + text[: text.index(at or new)].count("\n")
    with pytest.raises(ConfigError) as caught:
        parse_scenario(text, "court/small.toml")
    assert any(one.startswith(f"court/small.toml:{line}: {told}") for one in str(caught.value).splitlines()), str(
        caught
    )


@pytest.mark.parametrize("text", ["[1, 2]", '"x"', "[]", "1", "null", "\n[]"])
def test_json_that_holds_no_object_is_told(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^32\.json:1: should be a table \(or object\)$"):
        parse_scenario(text, "32.json")
    (tmp_path / "32.json").write_text(text)
    with pytest.raises(ValidationError, match=r"32\.json:1: should be a table \(or object\)"):
        CourtSettings.model_validate({"scenario": "32.json"}, context={"folder": tmp_path})


def test_a_trial_without_end_is_refused() -> None:
    loops = "\n".join('[[steps]]\naction = "tally"\nloop = "talk"' for _ in range(11))
    with pytest.raises(ConfigError, match=r"small\.toml:1: loops: 602 steps are more than 500"):
        parse_scenario(SMALL.replace("talk = 2", "talk = 50").replace(LAST, f"{loops}\n{LAST}"), "small.toml")


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_scenario(SMALL.replace("{word}", "{wrod}").replace('"head"', '"haed"', 1), "small.toml")
    assert len(str(caught.value).splitlines()) == 3


def test_published_json_files_are_read_with_their_own_keys() -> None:
    published = {
        "id": "m1",
        "root_question": "Will it rain?",
        "agents": [
            {"name": "user", "capabilities": {"web_retrieval": False, "llm": False}},
            {"name": "judge", "system_message": "Judge.", "capabilities": {"web_retrieval": False, "llm": True}},
        ],
        "scenario": [
            {"step": 0, "action_type": "message", "kind": "synthesis", "initiator": "user", "receiver": "judge",
             "message": "Conclude on {title}.", "store": "end", "max_turns": 1, "silent": False},
        ],
    }  # fmt: skip
    assert parse_scenario(json.dumps(published), "m1.json").steps[0].action is MoveAction.MESSAGE
    published["scenario"][0]["message"] = "{nothing}"  # type: ignore[index]
    text = json.dumps(published, indent=2)
    line = 1 + text[: text.index("{nothing}")].count("\n")
    with pytest.raises(ConfigError, match=rf"m1\.json:{line}: scenario\[0\]\.message: nothing fills"):
        parse_scenario(text, "m1.json")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"agents = [", "is not valid TOML"),
        (b"a = 1\nb = '\xff'", ":2: is not UTF-8 text"),
        (b"#" * 70_000, "is larger than 65536 bytes, which is too large for a scenario"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "court.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=told):
        parse_scenario(read_scenario_file(file), str(file))
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_scenario_file(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("name", ["ten", "full"])
def test_nothing_is_doubtful_in_what_ships(name: str) -> None:
    assert find_warnings(read_shipped_text(name), f"{name}.toml") == ()


def test_what_a_later_turn_of_a_loop_or_an_exchange_knows_is_not_doubtful() -> None:
    assert find_warnings(SMALL, "small.toml") == ()
    exchange = (
        SMALL.replace("talk = 2", "talk = 1")
        .replace("step = 3", "step = 2")
        .replace('initiator = "user"', 'initiator = "clerk"')
    )
    assert find_warnings(exchange, "small.toml") != ()
    assert find_warnings(exchange.replace('loop = "talk"', 'loop = "talk"\nmax_turns = 2'), "x") == ()


def test_what_is_stored_too_late_and_a_jury_that_never_votes_are_warned_of() -> None:
    late = SMALL.replace("Go on: {word}", "Go on: {rules} {title}").replace(
        'name = "verdict"', 'name = "verdict"\nstore = "rules"'
    )
    line = 1 + late[: late.index("Go on")].count("\n")
    told = (
        f"a.toml:{line}: steps[1].message: warning: no step before this one stores {{rules}}, so it says (nothing yet)"
    )
    assert find_warnings(late, "a.toml") == (told,)
    (never,) = find_warnings(
        SMALL.replace("talk = 2", "talk = 0").replace("step = 1\n", "").replace("step = 3", ""), "a.toml"
    )
    assert "stores {word}" in never
    estimate = SMALL.replace('kind = "vote"\n', "").replace('receiver = "head"', 'receiver = "head"\nkind = "estimate"')
    (vote,) = find_warnings(estimate, "a.toml")
    assert "warning: no step of the kind vote or synthesis is played, so an estimate becomes the forecast" in vote
