"""The rules that code keeps: criteria before extremes, length, sources, rounding."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.api import fence_text
from bot.core.beliefs import ConfidenceLevel, ShownSource
from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction, Prediction
from bot.testing.trial_context import fixed_text_tool
from plugins.solo import answer_rules
from plugins.solo.settings import SoloSettings
from tests.plugins.solo.cases import (
    CHOICE,
    CRITERIA,
    FOUND,
    RESTATED,
    TEXT,
    evidence,
    final,
    last_said,
    move,
    probability,
    question,
    scripted_context,
    search,
    steps_of,
    submit,
    update,
)

LONG = "word " * 301


async def test_an_extreme_answer_needs_the_criteria_restated_and_gets_a_second_chance() -> None:
    at = scripted_context(submit(0.99), submit(0.99, criteria_restated=RESTATED))
    assert probability(await final(question(), at)) == 0.99
    assert "criteria_restated should say" in last_said(at.prompts[1].prompt)


@pytest.mark.parametrize(("given_", "kept"), [(0.99, 0.97), (0.97, 0.97), (0.03, 0.03), (0.005, 0.03), (0.96, 0.96)])
async def test_without_it_the_answer_is_kept_to_the_limit_with_a_remark(given_: float, kept: float) -> None:
    said = [submit(given_), submit(given_)]
    step = await final(question(), scripted_context(*(said if given_ != 0.96 else said[:1])))
    assert probability(step) == kept
    assert any("kept from being more extreme than 0.97" in remark for remark in step.remarks) == (given_ != 0.96)


@pytest.mark.parametrize(
    "restated",
    [
        "Will the ship come in?",
        "Will the ship come in? " * 5,
        "It is entirely obvious, whatever one may think, and everybody agrees wholeheartedly about everything.",
        "x" * 500,
        "Moored in the inner harbour basin.",
        ["a list"],
        "",
    ],
)
async def test_a_copy_of_the_title_or_empty_words_restate_nothing(restated: object) -> None:
    at = scripted_context(*[submit(0.99, criteria_restated=restated)] * 2)
    assert probability(await final(question(), at)) == 0.97


async def test_an_update_is_held_to_the_same_rule_and_once_restated_is_enough() -> None:
    at = scripted_context(update(0.99), update(0.99), search(), update(0.98, criteria_restated=RESTATED), submit(0.99))
    steps, _ = await steps_of(question(), at)
    assert [probability(step) for step in steps] == [0.97, 0.97, 0.98, 0.99]
    assert "kept from being more extreme" in steps[0].observation.text


async def test_a_repair_that_was_used_up_by_another_fault_does_not_end_the_trial() -> None:
    step = await final(question(), scripted_context(submit("high"), submit(0.99)))
    assert probability(step) == 0.97


async def test_the_limit_is_a_setting() -> None:
    step = await final(question(), scripted_context(submit(0.96), submit(0.96)), SoloSettings(extreme_probability=0.9))
    assert probability(step) == 0.9


async def test_a_nearly_certain_option_is_extreme_and_an_unlikely_one_is_not() -> None:
    at = scripted_context(*[submit({"red": 0.98, "green": 0.01, "blue": 0.01}, field="probabilities")] * 2)
    (kept,) = (await final(question(CHOICE), at)).belief.predictions.values()
    assert kept == ChoicePrediction({"red": 0.97, "green": 0.015, "blue": 0.015})
    unlikely = scripted_context(submit({"red": 0.9, "green": 0.09, "blue": 0.01}, field="probabilities"))
    assert not any("extreme" in remark for remark in (await final(question(CHOICE), unlikely)).remarks)


async def test_a_rationale_that_is_too_long_is_sent_back_once_and_then_cut() -> None:
    at = scripted_context(submit(0.4, rationale=LONG), submit(0.4, rationale=LONG))
    step = await final(question(), at)
    assert "rationale has 301 words, and 300 are the most" in last_said(at.prompts[1].prompt)
    assert step.belief.reason.splitlines()[0] == "It will."
    assert len(step.belief.reason.splitlines()[1].removesuffix(" ...").split()) == 300
    assert any("was cut" in remark for remark in step.remarks)


async def test_the_bottom_line_comes_first_and_is_asked_for() -> None:
    at = scripted_context(submit(0.4, bottom_line=" "), submit(0.4))
    assert (await final(question(), at)).belief.reason == "It will.\nAll in all."
    assert "bottom_line should say" in last_said(at.prompts[1].prompt)


async def test_answers_count_in_whole_percent_and_finer_near_certainty() -> None:
    said = [update(value) for value in (0.4567, 0.0567, 0.9444, 0.1)]
    steps, _ = await steps_of(question(), scripted_context(*said, submit(0.123)))
    assert [probability(step) for step in steps] == [0.46, 0.057, 0.944, 0.1, 0.12]


async def test_two_independent_sources_leave_the_confidence_that_was_stated() -> None:
    cited = evidence("search_1_result_1", "https://pier.co.uk/other")
    steps, _ = await steps_of(question(), scripted_context(search(), update(0.4, evidence_for=cited), submit(0.4)))
    assert [step.belief.confidence for step in steps[1:]] == [ConfidenceLevel.HIGH, ConfidenceLevel.HIGH]


@pytest.mark.parametrize(
    "sources",
    [
        (),
        ("search_1_result_1", "https://blog.harbour.example/2"),
        ("search_1_result_1", "https://made-up.example/a", "search_9_result_9"),
        ("search_1_result_1", "web_search"),
    ],
)
async def test_fewer_sources_or_made_up_ones_make_confidence_low(sources: tuple[str, ...]) -> None:
    cited = evidence(*sources)
    steps, _ = await steps_of(question(), scripted_context(search(), update(0.4, evidence_for=cited), submit(0.4)))
    assert steps[-1].belief.confidence is ConfidenceLevel.LOW
    assert any("independent sources were found and cited, 2 are wanted" in remark for remark in steps[-1].remarks)


def test_sources_are_known_by_number_name_and_address() -> None:
    sources = answer_rules.SeenSources()
    sources.add_result("web_search", FOUND)
    sources.add_result("series_history")
    assert sources.find_cited(["as search_1_result_2 and Harbour.example say, and series_history"]) == {
        "pier.co.uk",
        "harbour.example",
        "series",
    }
    assert sources.find_cited(["fetch_wiki_toc", "elsewhere.example"]) == set()


def test_what_a_page_names_or_a_program_prints_was_not_met() -> None:
    sources = answer_rules.SeenSources()
    named = "https://wire.example/b https://forged.example/a"
    blog = ShownSource(name="search_1_result_1", url="https://blog.example/x", title="A blog", text=named)
    sources.add_result("web_search", (blog,))
    page = ShownSource(name="page_1", text="see https://wire.example/c")
    sources.add_result("lookup_url", (page,), "https://a:b@paper.example/p")
    forged = replace(blog, name="search_1_result_9", url="https://forged.example/")
    sources.add_result("calculate", (forged,), "https://forged.example/")
    said = ["wire.example, forged.example, paper.example, search_1_result_9, search_1_result_1"]
    assert sources.find_cited(said) == {"blog.example", "paper.example"}


def test_a_result_is_cited_by_the_name_that_the_tool_gave_it() -> None:
    sources = answer_rules.SeenSources()
    named = [ShownSource(name=name, url=f"https://{name}.example/") for name in ("hit_1", "hit_12")]
    sources.add_result("web_search", named)
    assert sources.find_cited(["as hit_12 says", "(hit_3)"]) == {"hit_12.example"}


def test_tools_and_the_page_behind_them_are_one_source() -> None:
    sources = answer_rules.SeenSources()
    sources.add_result("fetch_wiki_toc", (ShownSource(name="headings of a page of wiki"),))
    assert sources.find_cited(["fetch_wiki_toc", "moon.example"]) == {"fetch_wiki"}
    address = "https://en.wiki.example/Tide"
    section = ShownSource(name="section of wiki", url=address, text="The moon; see https://moon.example/")
    sources.add_result("fetch_wiki_section", (section,))
    sources.add_result("series_history")
    sources.add_result("series_model")
    said = [f"fetch_wiki_toc, fetch_wiki_section, {address}, moon.example, series_model and history"]
    assert sources.find_cited(said) == {"wiki.example", "series"}


async def test_the_address_that_was_read_is_a_source_and_those_in_its_text_are_none() -> None:
    page = fixed_text_tool("lookup_url", fence_text("It says so at https://wire.example/b", "page_1"), url=TEXT)
    cited = evidence("https://wire.example/b", "search_1_result_1", "https://paper.example/a")
    steps = []
    for url in ("https://harbour.example/b", "https://paper.example/a"):
        at = scripted_context(
            search(), move("lookup_url", url=url), update(0.4, evidence_for=cited), submit(0.4), read=page
        )
        steps.append((await steps_of(question(), at))[0][-1])
    assert [step.belief.confidence for step in steps] == [ConfidenceLevel.LOW, ConfidenceLevel.HIGH]


@settings(max_examples=40)
@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=30).filter(lambda shares: sum(shares) > 0.01))
def test_rounded_shares_have_one_decimal_sum_to_one_and_stay_near(weights: list[float]) -> None:
    shares = {str(place): weight / sum(weights) for place, weight in enumerate(weights)}
    rounded = answer_rules.round_predictions({"": ChoicePrediction(shares)})[""]
    assert isinstance(rounded, ChoicePrediction)
    parts = {option: share * 1000 for option, share in rounded.probabilities.items()}
    assert all(abs(value - round(value)) < 1e-9 for value in parts.values())
    assert sum(map(round, parts.values())) == 1000
    raised = sum(1 for share in shares.values() if 0.0 < share < 0.001)
    for option, share in shares.items():
        assert abs(parts[option] - 1000 * share) <= 1 + raised


@settings(max_examples=40)
@given(
    st.one_of(
        st.floats(0.0, 1.0).map(BinaryPrediction),
        st.floats(0.0, 1.0).map(lambda share: ChoicePrediction({"a": share, "b": 1.0 - share})),
        st.just(CurvePrediction((0.0, 1.0))),
    ),
    st.floats(0.51, 0.999),
)
def test_what_is_held_back_is_no_more_extreme_than_the_limit(prediction: Prediction, extreme: float) -> None:
    held = answer_rules.limit_extremes({"": prediction}, extreme)
    assert not answer_rules.is_extreme(held, extreme + 1e-9)
    if not answer_rules.is_extreme({"": prediction}, extreme):
        assert held == {"": prediction}


def test_a_choice_that_is_all_but_sure_still_sums_to_one_when_held_back() -> None:
    held = answer_rules.limit_extremes({"": ChoicePrediction({"a": 1e-12, "b": 1.0 - 1e-12})}, 0.75)
    assert isinstance(held[""], ChoicePrediction)
    assert dict(held[""].probabilities) == pytest.approx({"a": 0.25, "b": 0.75})


def test_a_sure_choice_of_all_leaves_the_rest_to_the_others() -> None:
    held = answer_rules.limit_extremes({"": ChoicePrediction({"a": 1.0, "b": 0.0, "c": 0.0})}, 0.9)
    assert isinstance(held[""], ChoicePrediction)
    assert dict(held[""].probabilities) == pytest.approx({"a": 0.9, "b": 0.05, "c": 0.05})


def test_criteria_that_are_copied_whole_count_as_restated() -> None:
    assert answer_rules.restatement_fault(CRITERIA, question(), 60) is None
