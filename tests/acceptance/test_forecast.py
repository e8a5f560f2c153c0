"""One question now, through the real command, with a scripted model behind a real server on loopback."""

import asyncio
import os
import shlex
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bot.core.values import Json
from bot.testing.model_server import CompletionRequest, ScriptedReply, never_reply, play_moves, reply_error
from tests.acceptance.command_server import COMMAND
from tests.acceptance.scripted_installation import (
    CONFIG,
    PRICE,
    RAIN,
    ROLE,
    VENUE,
    conversations,
    daemon_of,
    searching,
    serving,
    wait_for_result,
)

SHAPES: Mapping[str, tuple[str, dict[str, Json], dict[str, Any]]] = {
    "binary": (RAIN, {"probability": 0.2}, {"outcome": {"kind": "binary", "probability": 0.2}}),
    "several dates": (
        'title = "Rain?"\ntargets = [2027-01-01, 2027-02-01]\n',
        {"probability": {"2027-01-01": 0.25, "2027-02-01": 0.75}},
        {
            "2027-01-01": {"kind": "binary", "probability": 0.25},
            "2027-02-01": {"kind": "binary", "probability": 0.75},
        },
    ),
    "choice": (
        '{"title": "Who?", "shape": {"kind": "choice", "options": ["Ann", "Bob"]}}',
        {"probabilities": {"Ann": 0.7, "Bob": 0.3}},
        {"outcome": {"kind": "choice", "probabilities": {"Ann": 0.7, "Bob": 0.3}}},
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_question_of_ones_own_is_forecast_with_what_the_model_submits(tmp_path: Path, shape: str) -> None:
    text, answer, expected = SHAPES[shape]
    async with serving(tmp_path, searching(1, **answer)) as context:
        made = await context(
            "forecast", context.write(f"q.{'json' if text.startswith('{') else 'toml'}", text), "--json"
        )
        assert (made.code, made.err) == (0, "")
        found = made.json
    predictions = found["forecast"]["predictions"]
    assert predictions.keys() == expected.keys()
    for target, prediction in expected.items():
        values = {name: value for name, value in prediction.items() if name != "kind"}
        got = {name: value for name, value in predictions[target].items() if name != "kind"}
        assert predictions[target]["kind"] == prediction["kind"]
        assert _flat(got) == pytest.approx(_flat(values))
    assert [len(trial["steps"]) for trial in found["trials"]] == [2, 2]
    assert found["forecast"]["why"] == "asked for"
    assert found["question"]["ref"].startswith("file:")


def _flat(values: Mapping[str, Any]) -> list[float]:
    return [one for value in values.values() for one in (value.values() if isinstance(value, dict) else [value])]


async def test_a_number_is_forecast_as_a_curve_through_the_quantiles_that_the_model_gives(tmp_path: Path) -> None:
    text = 'title = "How much?"\n[shape]\nkind = "number"\nunit = "mm"\nrange = [0, 100]\npoints = 101\n'
    given: dict[str, Json] = {"p5": 10, "p10": 15, "p25": 25, "p50": 40, "p75": 60, "p90": 80, "p95": 90}
    async with serving(tmp_path, searching(0, quantiles=given)) as context:
        made = await context("forecast", context.write("q.toml", text), "--json")
        assert (made.code, made.err) == (0, "")
        cdf = made.json["forecast"]["predictions"]["outcome"]["cdf"]
    assert len(cdf) == 101
    # A grid point is a whole number, so the quantiles stand on it; a little mass is kept for every step.
    for name, value in given.items():
        assert isinstance(value, int)
        assert cdf[value] == pytest.approx(int(name[1:]) / 100, abs=0.02)


async def test_a_person_sees_every_step_the_evidence_and_what_stands_beside(tmp_path: Path) -> None:
    belief: Json = {
        "probability": 0.3,
        "confidence": "medium",
        "update_reasoning": "clouds",
        "evidence_for": ["it rained here"],
    }
    play = play_moves(("web_search", {"query": "rain"}), ("submit", {"probability": 0.2, "updated_belief": belief}))
    async with serving(tmp_path, play) as context:
        made = await context("forecast", context.write("q.toml", RAIN))
        assert (made.code, made.err) == (0, "")
        for part in (
            "step 1 of 10: web_search(query=rain",
            "step 2 of 10: submit(",
            "tokens in",
            "ended after 2 steps: finished",
            "logit-mean of the trials 1, 2: 20.0%",
            "for      blf    crowd  baseline",
            "outcome  20.0%  40.0%",
            "nothing was submitted",
        ):
            assert part in made.out
        number = made.out.partition("explain ")[2].split()[0]
        explained = await context("explain", number, "--json")
        assert explained.json["forecast"]["id"] == number


async def test_a_kill_in_mid_trial_costs_only_what_was_not_answered(tmp_path: Path) -> None:
    through = searching(3, probability=0.2)
    hung = asyncio.Event()

    def play(asked: CompletionRequest) -> ScriptedReply:
        if asked.assistant_turns < 2:
            return through(asked)
        if sum(one.assistant_turns == 2 for one in context.server.requests) == 2:
            hung.set()
        return never_reply()

    async with serving(tmp_path, play) as context:
        name = context.write("q.toml", RAIN)
        process = await context.begin("forecast", name)
        async with asyncio.timeout(20):
            await hung.wait()
        process.send_signal(signal.SIGKILL)
        await process.communicate()
        paid = conversations([asked for asked in context.server.requests if asked.assistant_turns < 2])
        unpaid = conversations([asked for asked in context.server.requests if asked.assistant_turns == 2])
        assert (len(set(paid)), len(set(unpaid))) == (4, 2)
        context.server.requests.clear()
        context.server.script = through
        made = await context("forecast", name)
        assert made.code == 0
        assert "was interrupted; it is resumed" in made.out
        assert (await context("show", "file:rain", "--json")).json["history"][-1]["revision"] == 1
        again = conversations(context.server.requests)
    assert not {*paid} & {*again}
    assert {*unpaid} <= {*again}
    assert len(again) == len(set(again)) == 4


async def test_the_keyboard_keeps_what_is_on_record(tmp_path: Path) -> None:
    hung = asyncio.Event()
    through = searching(1, probability=0.2)

    def play(asked: CompletionRequest) -> ScriptedReply:
        if asked.assistant_turns == 0:
            return through(asked)
        hung.set()
        return never_reply()

    async with serving(tmp_path, play) as context:
        name = context.write("q.toml", RAIN)
        (context.foxcast.folder / "config.toml").rename(context.foxcast.folder / "my own.toml")
        asked = ["--config", "my own.toml", "forecast", name, "--forecaster", "blf"]
        process = await context.begin(*asked)
        async with asyncio.timeout(20):
            await hung.wait()
        process.send_signal(signal.SIGINT)
        ended = await wait_for_result(process)
        assert ended.code == 130
        assert ended.err.splitlines()[-1].startswith("foxcast: interrupted;")
        again = shlex.split(ended.err.rpartition("resume with: ")[2])[1:]
        assert again == asked
        context.server.script = through
        first = conversations([asked for asked in context.server.requests if asked.assistant_turns == 0])
        context.server.requests.clear()
        made = await context(*again)
        closer = shlex.split(made.out.rpartition("see every step with: ")[2])[1:]
        explained = await context(*closer)
    assert (made.code, explained.code) == (0, 0)
    assert closer[:3] == ["--config", "my own.toml", "explain"]
    assert not {*first} & {*conversations(context.server.requests)}


async def test_without_a_model_for_the_role_the_table_to_add_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path, searching(0), config=CONFIG) as context:
        made = await context("forecast", context.write("q.toml", RAIN))
        assert made.is_refusal(2, "role main", "[llm.roles.main] model = ")
        assert context.server.count == 0


async def test_what_the_budget_does_not_allow_is_told_and_fails(tmp_path: Path) -> None:
    config = CONFIG + ROLE + PRICE + "[llm.budget]\nquestion_usd = 0.0001\n"
    async with serving(tmp_path, searching(0, probability=0.2), config=config) as context:
        made = await context("forecast", context.write("q.toml", RAIN))
        assert made.code == 9
        assert "raise [llm.budget] question_usd" in made.err.splitlines()[-1]
        assert "Traceback" not in made.err
        assert context.server.count == 0


async def test_a_budget_that_ends_all_trials_after_evidence_leaves_a_forecast_and_has_its_own_word(
    tmp_path: Path,
) -> None:
    config = CONFIG + ROLE + "max_tokens = 100\n" + PRICE + "[llm.budget]\nquestion_usd = 0.006\n"
    async with serving(tmp_path, searching(9, probability=0.2), config=config) as context:
        made = await context("forecast", context.write("q.toml", RAIN))
        assert made.code == 0
        assert "trials failed" not in made.err
        assert "the budget of the question does not allow" in made.err
        assert ": budget: same as trial " in made.out
        assert made.out.count("does not allow the call") == 2
        assert context.server.count > 0


async def test_a_model_without_a_price_is_told_as_that_before_anybody_is_asked(tmp_path: Path) -> None:
    async with serving(tmp_path, searching(0, probability=0.2), config=CONFIG + ROLE) as context:
        made = await context("forecast", context.write("q.toml", RAIN))
        assert made.is_refusal(2, "openai_compatible:here/scripted is not used", "price_in = ...", "free = true")
        assert "--yes" not in made.err
        assert context.server.count == 0


async def test_a_pass_tells_which_model_has_no_price(tmp_path: Path) -> None:
    async with serving(tmp_path, searching(0, probability=0.2), config=CONFIG + ROLE + VENUE) as context:
        held = await context("run", "--once")
        assert "blf held: openai_compatible:here/scripted is not used: its provider gives no price" in held.out
        assert "say yes" not in held.out


async def test_what_may_cost_too_much_is_not_begun_before_a_yes(tmp_path: Path) -> None:
    config = CONFIG + ROLE + PRICE + "[llm.budget]\nask_above_usd = 0.0\n"
    async with serving(tmp_path, searching(0, probability=0.2), config=config) as context:
        name = context.write("q.toml", RAIN)
        assert (await context("forecast", name)).is_refusal(2, "1 forecast by blf is expected to cost", "--yes")
        assert context.server.count == 0
        assert (await context("forecast", name, "--yes")).code == 0
        assert context.server.count == 2


async def test_a_pass_tells_what_it_holds_and_does_it_after_a_yes(tmp_path: Path) -> None:
    config = CONFIG + ROLE + PRICE + VENUE + "[llm.budget]\nask_above_usd = 0.0\n"
    async with serving(tmp_path, searching(0, probability=0.2), config=config) as context:
        held = await context("run", "--once")
        assert held.code == 0
        assert "1 forecast by blf held: expected to cost about" in held.out
        assert "confirm with --yes" in held.out
        assert context.server.count == 0
        done = await context("run", "--once", "--yes")
        assert (done.code, done.err) == (0, "")
        assert " held: " not in done.out
        assert context.server.count == 2


async def test_a_model_that_refuses_the_key_ends_with_the_code_for_that(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda _: reply_error(401, why="no such key")) as context:
        made = await context("forecast", context.write("q.toml", RAIN))
        assert made.code == 4
        assert "status 401" in made.err.splitlines()[-1]


async def test_trials_that_a_provider_cut_short_are_no_answer_whatever_they_believed(tmp_path: Path) -> None:
    search = searching(3)

    def play(asked: CompletionRequest) -> ScriptedReply:
        return search(asked) if asked.assistant_turns < 2 else reply_error(401, why="the key has run out")

    async with serving(tmp_path, play) as context:
        made = await context("forecast", context.write("q.toml", RAIN))
        assert made.code == 4
        assert "see every step with" not in made.out
        last = made.err.splitlines()[-1]
        assert last.startswith("foxcast: 2 trials failed: ")
        assert "status 401" in last
        assert "AuthenticationError" not in made.out + made.err


async def test_a_running_daemon_makes_the_forecast_and_the_command_shows_it(tmp_path: Path) -> None:
    config = CONFIG + ROLE + PRICE + VENUE
    async with serving(tmp_path, searching(1, probability=0.2), config=config) as context:
        daemon = await daemon_of(context)
        made = await context("forecast", context.write("q.toml", RAIN), "--forecaster", "blf")
        assert (made.code, made.err) == (0, "")
        for part in (
            "requested; the running Foxcast",
            "web_search(query=rain 0",
            "logit-mean of the trials 1, 2: 20.0%",
        ):
            assert part in made.out
        refused = await context("forecast", "q.toml", "--forecaster", "baseline")
        assert refused.is_refusal(9, "the forecaster baseline is not running here", "keeper")
        lamp = await context("forecast", "harbour:lamp", "--forecaster", "keeper", "--json")
        assert lamp.json["forecast"]["why"] in {"asked for", "new question"}
        assert (await context("forecast", "q.toml", "--forecaster", "blf", "--no-wait")).code == 0
        daemon.send_signal(signal.SIGTERM)
        assert (await wait_for_result(daemon)).code == 0


async def test_a_second_command_waits_for_the_first_and_goes_on_where_that_was_killed(tmp_path: Path) -> None:
    hung = asyncio.Event()

    def play(_asked: CompletionRequest) -> ScriptedReply:
        hung.set()
        return never_reply()

    async with serving(tmp_path, play) as context:
        name = context.write("q.toml", RAIN)
        first = await context.begin("forecast", name)
        async with asyncio.timeout(20):
            await hung.wait()
            second = await context.begin("forecast", name)
            assert second.stdout
            assert (await second.stdout.readline()).startswith(b"requested; the running Foxcast")
        context.server.script = searching(1, probability=0.2)
        first.kill()
        made = await wait_for_result(second)
        assert made.code == 0
        for part in ("the forecast continues here", "20.0%"):
            assert part in made.out
        history = (await context("show", "file:rain", "--json")).json["history"]
    assert [one["revision"] for one in history if one["forecaster"] == "blf"] == [1]
    assert not [*(tmp_path / "state" / "paper" / "requests").glob("*.json")]


async def test_a_forecast_of_a_daemon_that_is_killed_goes_on_in_the_command(tmp_path: Path) -> None:
    through, hung = searching(1, probability=0.2), asyncio.Event()

    def play(asked: CompletionRequest) -> ScriptedReply:
        if asked.assistant_turns == 0 or "Paris" not in asked.outside_text():
            return through(asked)
        if sum(one.assistant_turns == 1 and "Paris" in one.outside_text() for one in context.server.requests) == 2:
            hung.set()
        return never_reply()

    async with serving(tmp_path, play, config=CONFIG + ROLE + PRICE + VENUE) as context:
        daemon = await daemon_of(context)
        command = await context.begin("forecast", context.write("q.toml", RAIN), "--forecaster", "blf")
        async with asyncio.timeout(20):
            await hung.wait()
        context.server.script = through
        daemon.kill()
        await daemon.communicate()
        made = await wait_for_result(command)
    assert made.code == 0
    assert "the other Foxcast has ended; the forecast continues here" in made.out
    paid = [
        asked for asked in context.server.requests if asked.assistant_turns == 0 and "Paris" in asked.outside_text()
    ]
    assert len({*conversations(paid)}) == len(paid) == 2


async def test_on_a_terminal_the_trials_stand_below_their_steps(tmp_path: Path) -> None:
    async with serving(tmp_path, searching(1, probability=0.2)) as context:
        context.write("q.toml", RAIN)
        ours, theirs = os.openpty()
        process = await asyncio.create_subprocess_exec(
            COMMAND,
            "forecast",
            "q.toml",
            cwd=tmp_path,
            env={**context.foxcast.environment, "TERM": "xterm", "COLUMNS": "100"},
            stdin=theirs,
            stdout=theirs,
            stderr=asyncio.subprocess.PIPE,
        )
        context.running.append(process)
        os.close(theirs)
        shown = await asyncio.to_thread(_read_until_closed, ours)
        assert await process.wait() == 0
    assert b"action" in shown
    assert b"0/10" in shown


def _read_until_closed(terminal: int) -> bytes:
    """Read a terminal until nobody writes to it any more, which Linux tells by an error."""
    shown = b""
    with suppress(OSError):
        while part := os.read(terminal, 4096):
            shown += part
    os.close(terminal)
    return shown
