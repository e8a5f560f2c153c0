import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import ValidationError

from bot.config.schema import HealthSection
from bot.core.language_models import ModelPerformance, Prompt, ToolDefinition
from bot.llm.model_health import ModelHealthReport, demotion_reasons, even_answer_reasons, report_model_health
from bot.store.model_calls import ModelDemotion
from bot.testing.clock import FakeClock
from bot.testing.models import ScriptedModelProvider, text_completion
from tests.unit.llm.conftest import OpenRig
from tests.unit.llm.gateway_fixture import MAIN, SPARE, GatewayFixture, charge, inquiry, rows, section, with_fallback

GOOD = ModelPerformance(role="main", model=MAIN, asked=10, unparsed=0, submitted=True)
RULES = HealthSection(
    window=10, min_trials=5, submit_rate=0.8, unparsed=0.3, even_answers=0.5, belief_gap=0.1, hours=24
)
ROLES = section(roles=with_fallback(), health=RULES.model_dump())


def test_a_model_at_its_bounds_does_its_work() -> None:
    submitted = [*[GOOD] * 8, *[replace(GOOD, submitted=False)] * 2]
    at_bounds = [replace(conduct, unparsed=3, submission_gap=0.1) for conduct in submitted]
    assert list(demotion_reasons(at_bounds, RULES)) == []
    assert list(even_answer_reasons([1.0, 1.0, 0.5, 0.0, 0.0], RULES)) == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (replace(GOOD, submitted=False), "submitted in 70% in its last 10 trials, less than 80%"),
        (replace(GOOD, unparsed=10, asked=10), "37% of its moves"),
        (replace(GOOD, submission_gap=0.4), "0.120 from what it believed"),
        (replace(GOOD, beliefs=90, unread_beliefs=80), "89% of its belief updates in its last 10 trials could not be"),
    ],
)
def test_each_figure_out_of_bounds_is_told(bad: ModelPerformance, words: str) -> None:
    recent = [bad, bad, bad, *[replace(GOOD, unparsed=1 if bad.unparsed else 0)] * 7]
    (told,) = demotion_reasons(recent, RULES)
    assert words in told


def test_requests_that_fail_amid_most_trials_are_told() -> None:
    failed = replace(GOOD, errors=3)
    assert list(demotion_reasons([*[failed] * 5, *[GOOD] * 5], RULES)) == []
    (told,) = demotion_reasons([*[failed] * 6, *[GOOD] * 4], RULES)
    assert told == "requests to it failed in 60% of its last 10 trials, more than 50%"


def test_too_many_answers_of_exactly_one_half_are_told() -> None:
    (told,) = even_answer_reasons([1.0, 1.0, 0.8, 0.2, 0.0], RULES)
    assert "exactly 0.5 in 60% over its last 5 questions, more than 50%" in told


async def test_a_question_that_is_truly_even_demotes_nobody_however_many_trials_it_has(open_rig: OpenRig) -> None:
    async with open_rig(ROLES) as rig:
        await grade(rig, replace(GOOD, ended_at_half=True), trials=range(30))
        assert rig.alerts == []
        # Four such questions are fewer than any verdict needs.
        for number in range(2, 5):
            await rig.gateway.grade(replace(GOOD, ended_at_half=True), charge(scope=f"forecast-{number}"))
        await rig.settled()
        assert rig.alerts == []


async def test_one_half_on_question_after_question_demotes(open_rig: OpenRig) -> None:
    async with open_rig(ROLES) as rig:
        for number in range(5):
            half = number != 2
            for trial in range(3):
                await rig.gateway.grade(
                    replace(GOOD, ended_at_half=half), charge(scope=f"forecast-{number}", trial=trial)
                )
        await rig.settled()
        ((_, text),) = rig.alerts
        assert "exactly 0.5 in 80% over its last 5 questions" in text


async def test_a_question_that_is_forecast_again_and_again_is_one_question(open_rig: OpenRig) -> None:
    async with open_rig(ROLES) as rig:
        for number in range(8):
            to = charge(scope=f"forecast-{number}")
            # The call tells of which question the forecast is.
            await rig.gateway.ask(inquiry(str(number), to=to), deadline_s=9)
            await rig.gateway.grade(replace(GOOD, ended_at_half=True), to)
        await rig.settled()
        assert rig.alerts == []
        assert await rig.ledger.model_performance.shares_ended_at_half(MAIN, role="main", limit=9) == (1.0,)


def test_there_is_no_verdict_on_too_few_trials_nor_from_what_was_not_asked() -> None:
    assert list(demotion_reasons([replace(GOOD, submitted=False)] * 4, RULES)) == []
    assert list(demotion_reasons([replace(GOOD, submitted=None, asked=0)] * 10, RULES)) == []
    assert list(even_answer_reasons([1.0] * 4, RULES)) == []
    assert list(even_answer_reasons([], RULES)) == []


async def grade(rig: GatewayFixture, conduct: ModelPerformance, *, trials: range) -> None:
    for trial in trials:
        await rig.gateway.grade(conduct, charge(trial=trial))
    await rig.settled()


async def test_a_model_that_does_badly_is_replaced_by_the_fallback_for_a_while(
    open_rig: OpenRig, clock: FakeClock
) -> None:
    async with open_rig(ROLES) as rig:
        await grade(rig, replace(GOOD, submitted=False), trials=range(4))
        assert (await rig.gateway.ask(inquiry("before"), deadline_s=9)).model == MAIN
        await grade(rig, replace(GOOD, submitted=False), trials=range(4, 8))
        # Told once, though three more trials ended badly.
        ((subject, text),) = rig.alerts
        assert subject == f"Model {MAIN} does badly"
        assert "0%" in text
        assert f"Until 2026-01-02 12:00 UTC {SPARE} is asked instead" in text
        assert (await rig.gateway.ask(inquiry("during"), deadline_s=9)).model == SPARE
    async with open_rig(ROLES) as rig:
        # Another process knows it too.
        assert (await rig.gateway.ask(inquiry("after a start"), deadline_s=9)).model == SPARE
        clock.set_wall_clock(timedelta(hours=24).total_seconds())
        assert (await rig.gateway.ask(inquiry("after a day"), deadline_s=9)).model == MAIN


async def test_trials_that_end_at_the_same_time_are_recorded_together_and_demote_once(open_rig: OpenRig) -> None:
    async with open_rig(ROLES) as rig:
        grading = [
            asyncio.create_task(rig.gateway.grade(replace(GOOD, submitted=False), charge(trial=trial)))
            for trial in range(20)
        ]
        await asyncio.sleep(0)
        assert rig.busy.count == 20
        await asyncio.gather(*grading)
        await rig.settled()
        assert len(rig.alerts) == 1
        assert len(rows(rig.path, "select why from demotion")) == 1


async def test_what_was_before_the_end_of_a_demotion_does_not_count_again(open_rig: OpenRig, clock: FakeClock) -> None:
    async with open_rig(ROLES) as rig:
        await grade(rig, replace(GOOD, submitted=False), trials=range(8))
    clock.set_wall_clock(timedelta(hours=24, seconds=1).total_seconds())
    async with open_rig(ROLES) as rig:
        await grade(rig, replace(GOOD, submitted=False), trials=range(10, 14))
        assert rig.alerts == []
        assert rig.gateway.health.is_demoted(MAIN, "main") is False
        await grade(rig, replace(GOOD, submitted=False), trials=range(14, 15))
        assert [subject for subject, _ in rig.alerts] == [f"Model {MAIN} does badly"]
        assert rig.gateway.health.is_demoted(MAIN, "main") is True


async def test_a_model_without_a_fallback_goes_on_being_asked_and_a_person_is_told(open_rig: OpenRig) -> None:
    async with open_rig(section(health=RULES.model_dump())) as rig:
        await grade(rig, replace(GOOD, submission_gap=0.5), trials=range(8))
        ((_, text),) = rig.alerts
        assert "is still used, because it has no fallback" in text
        assert (await rig.gateway.ask(inquiry(), deadline_s=9)).model == MAIN


async def test_each_role_is_judged_by_its_own_trials_and_replaced_in_that_role_alone(
    open_rig: OpenRig, clock: FakeClock
) -> None:
    roles = {**with_fallback(), "summariser": with_fallback()["main"]}
    both = section(roles=roles, health=RULES.model_dump())
    bad, short = replace(GOOD, submission_gap=0.18), replace(GOOD, role="summariser", submitted=None, asked=1)
    async with open_rig(both) as rig:
        for trial in range(5):
            # Summaries have no gap: mixed with them the figure would be 0.09, which is within bounds.
            await grade(rig, short, trials=range(trial, trial + 1))
            await grade(rig, bad, trials=range(trial, trial + 1))
        ((_, text),) = rig.alerts
        assert text.startswith("As main, ")
    async with open_rig(both) as rig:
        asked = [inquiry(f"as {role}", role=role) for role in ("main", "summariser")]
        assert [(await rig.gateway.ask(one, deadline_s=9)).model for one in asked] == [SPARE, MAIN]
        # A demotion from before there were roles in them is for all.
        old = ModelDemotion(model=MAIN, at=clock.now(), until=clock.now() + timedelta(hours=1), why="it never submits")
        await rig.ledger.model_performance.demote(old)
    async with open_rig(both) as rig:
        assert (await rig.gateway.ask(inquiry("again", role="summariser"), deadline_s=9)).model == SPARE


async def test_a_model_found_wanting_amid_a_trial_goes_on_where_its_fallback_lacks_the_tools(
    open_rig: OpenRig,
) -> None:
    plain = section(roles=with_fallback(), health=RULES.model_dump(), models={SPARE: {"dialect": "json"}})
    tools = (ToolDefinition(name="look", description="Look.", parameters={"type": "object"}),)
    async with open_rig(plain) as rig:
        assert rig.gateway.dialect("main") == "tools"
        await grade(rig, replace(GOOD, submitted=False), trials=range(5))
        asked = Prompt(messages=inquiry().prompt.messages, tools=tools)
        assert (await rig.gateway.ask(inquiry(asked), deadline_s=9)).model == MAIN
        assert (await rig.gateway.ask(inquiry("no tools"), deadline_s=9)).model == SPARE


@pytest.mark.parametrize(("window", "least"), [(5, 6), (1, 10)])
def test_rules_by_which_nobody_could_be_judged_are_refused(window: int, least: int) -> None:
    said = rf"min_trials = {least} trials .* window = {window}.*set min_trials to at most"
    with pytest.raises(ValidationError, match=said):
        HealthSection(window=window, min_trials=least)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (replace(GOOD, beliefs=9, unread_beliefs=9), "100% of its belief updates"),
        (replace(GOOD, errors=1), "requests to it failed in 100%"),
    ],
)
async def test_a_model_whose_beliefs_or_requests_fail_is_replaced(
    open_rig: OpenRig, bad: ModelPerformance, words: str
) -> None:
    async with open_rig(ROLES) as rig:
        await grade(rig, bad, trials=range(5))
        ((_, text),) = rig.alerts
        assert words in text
        assert (await rig.gateway.ask(inquiry(), deadline_s=9)).model == SPARE


async def test_a_report_tells_how_each_model_did_and_what_is_wrong(open_rig: OpenRig, clock: FakeClock) -> None:
    async with open_rig(section(health=RULES.model_dump())) as rig:
        await rig.gateway.ask(inquiry(), deadline_s=9)  # the call tells whose trials they are
        for trial in range(4):
            stuck = replace(GOOD, submitted=False, errors=trial // 3, beliefs=10, unread_beliefs=2)
            await rig.gateway.grade(stuck, charge(trial=trial))
        (report,) = await report_model_health(rig.ledger.model_performance, RULES, now=clock.now())
        assert report == ModelHealthReport(
            forecaster="scripted",
            role="main",
            model=MAIN,
            trials=4,
            submitted=0.0,
            unparsed=0.0,
            unread_beliefs=0.2,
            errors=0.25,
            problems=("3 of the last 4 trials ended at a limit without submitting",),
        )
        assert await report_model_health(rig.ledger.model_performance, RULES, now=clock.now() + timedelta(days=8)) == []


async def test_a_report_of_two_trials_finds_no_trouble(open_rig: OpenRig, clock: FakeClock) -> None:
    async with open_rig(section(health=RULES.model_dump())) as rig:
        await grade(rig, replace(GOOD, submitted=None, asked=0, errors=1), trials=range(2))
        (report,) = await report_model_health(rig.ledger.model_performance, RULES, now=clock.now())
        assert (report.trials, report.submitted, report.unparsed, report.unread_beliefs) == (2, None, None, None)
        assert report.problems == ()


async def test_the_same_trial_graded_again_after_a_crash_counts_once(open_rig: OpenRig) -> None:
    async with open_rig(ROLES) as rig:
        for _ in range(10):
            await grade(rig, replace(GOOD, submitted=False), trials=range(1))
        assert rig.alerts == []


async def test_while_a_model_is_demoted_its_fallback_is_asked_in_its_own_dialect(open_rig: OpenRig) -> None:
    spare = section(roles=with_fallback(), health=RULES.model_dump(), models={SPARE: {"dialect": "json"}})
    llms = {"prime": ScriptedModelProvider(), "other": ScriptedModelProvider(turns=[text_completion("{}")])}
    async with open_rig(spare, llms=llms) as rig:
        assert rig.gateway.dialect("main") == "tools"
        await grade(rig, replace(GOOD, submitted=False), trials=range(5))
        assert rig.gateway.dialect("main") == "json"
