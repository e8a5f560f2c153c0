import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.beliefs import (
    Belief,
    ConfidenceLevel,
    Evidence,
    ModelUsage,
    PriorSource,
    Step,
    StepAction,
    StepObservation,
    TrialPrior,
)
from bot.core.errors import MalformedDataError
from bot.core.forecasts import Forecast, ForecasterSetup, Trial, TrialEnd, TrialLimits
from bot.core.learning import FittedParameters
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Resolution, VoidOutcome
from bot.core.predictions import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
    QuestionShape,
)
from bot.core.questions import FACT_FIELDS, CrowdForecast, Question, QuestionRef, Target
from bot.core.redaction import register_secrets, temporary_secrets
from bot.store import serialization
from bot.store.trials import RECORDING_SERIALIZER

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

names = st.text(min_size=1, max_size=8)
texts = st.text(max_size=30)
probabilities = st.floats(0, 1)
zones = st.integers(-720, 720).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.builds(lambda micros, zone: datetime.fromtimestamp(micros / 1e6, zone), st.integers(0, 7 * 10**15), zones)
finite = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def shaped(draw: st.DrawFn) -> tuple[QuestionShape, Prediction]:
    """A shape, and a prediction that fits it."""
    kind = draw(st.sampled_from(["binary", "choice", "curve"]))
    if kind == "binary":
        return BinaryShape(), BinaryPrediction(draw(probabilities))
    if kind == "choice":
        options = draw(st.lists(names, min_size=2, max_size=4, unique=True))
        first = draw(probabilities)
        rest = (1.0 - first) / (len(options) - 1)
        return ChoiceShape(options=tuple(options)), ChoicePrediction(
            dict(zip(options, [first, *[rest] * (len(options) - 1)], strict=True))
        )
    grid = sorted(draw(st.lists(finite, min_size=2, max_size=5, unique=True)))
    cdf = sorted(draw(st.lists(probabilities, min_size=len(grid), max_size=len(grid))))
    return CurveShape(grid=tuple(grid), unit=draw(texts), open_lower=True, open_upper=True), CurvePrediction(tuple(cdf))


predictions = shaped().map(lambda pair: pair[1])
refs = st.builds(QuestionRef, st.text("abcdef", min_size=1), names)
targets = st.builds(Target, key=names, resolves_at=st.none() | moments, horizon_days=st.none() | st.integers(0, 4000))


@st.composite
def questions(draw: st.DrawFn) -> Question:
    shape, prediction = draw(shaped())
    crowd = CrowdForecast(prediction=prediction, at=draw(moments), explanation=draw(texts))
    return Question(
        ref=draw(refs),
        title=draw(texts),
        shape=shape,
        targets=tuple(draw(st.lists(targets, min_size=1, max_size=4, unique_by=lambda target: target.key))),
        background=draw(texts),
        criteria=draw(texts),
        url=draw(st.none() | texts),
        batch=draw(st.none() | texts),
        opens_at=draw(st.none() | moments),
        closes_at=draw(st.none() | moments),
        as_of=draw(st.none() | moments),
        crowd=draw(st.none() | st.just(crowd)),
        facts=draw(st.dictionaries(texts.filter(lambda name: name not in FACT_FIELDS), texts, max_size=3)),
        event=draw(texts),
        label=draw(texts),
        source_id=draw(texts),
        weight=draw(st.none() | st.floats(0, allow_infinity=False)),
        spot_at=draw(st.none() | moments),
        market_closes_at=draw(st.none() | moments),
        allows_training=draw(st.booleans()),
    )


evidence = st.builds(Evidence, text=texts, source=texts, log_odds=st.none() | finite)
beliefs = st.builds(
    Belief,
    predictions=st.dictionaries(names, predictions, max_size=3),
    confidence=st.sampled_from(ConfidenceLevel),
    anchor=texts,
    evidence_for=st.lists(evidence, max_size=2).map(tuple),
    searches=st.lists(texts, max_size=2).map(tuple),
    reason=texts,
    stated=st.booleans(),
)
priors = st.none() | st.builds(TrialPrior, st.sampled_from(PriorSource), predictions)
usages = st.builds(ModelUsage, calls=st.integers(0, 9), tokens_in=st.integers(0, 10**9), cost_usd=st.floats(0, 1e6))
steps = st.builds(
    Step,
    action=st.builds(StepAction, name=texts, arguments=st.dictionaries(texts, json_values, max_size=3)),
    observation=st.builds(StepObservation, text=texts, documents=st.lists(texts, max_size=2).map(tuple)),
    belief=beliefs,
    usage=usages,
    prior=priors,
)
trials = st.builds(
    Trial,
    number=st.integers(1, 9),
    end=st.sampled_from(TrialEnd),
    belief=st.none() | beliefs,
    steps=st.integers(0, 9),
    usage=usages,
    detail=texts,
    prior=priors,
)
outcomes = st.one_of(
    st.builds(BinaryOutcome, probabilities),
    st.builds(ChoiceOutcome, texts),
    st.builds(NumericOutcome, st.floats(allow_nan=False)),
    st.builds(VoidOutcome, texts),
)
answers = st.dictionaries(names, predictions, max_size=3)
forecasts = st.builds(
    Forecast,
    id=names,
    ref=refs,
    version=names,
    forecaster=names,
    revision=st.integers(1, 99),
    cutoff=moments,
    made_at=moments,
    why=texts,
    raw=answers,
    predictions=answers,
    fitted=st.none() | names,
    calibration=st.none() | names,
)
resolutions = st.builds(Resolution, ref=refs, target=names, outcome=outcomes, resolved_at=moments)
learned = st.builds(
    FittedParameters,
    forecaster=names,
    before=moments,
    examples=st.integers(0, 10**6),
    payload=st.dictionaries(texts, json_values, max_size=3),
    provenance=st.dictionaries(texts, texts, max_size=3),
)

setups = st.builds(
    ForecasterSetup,
    settings=st.dictionaries(texts, json_values, max_size=3),
    trials=st.integers(1, 99),
    aggregate=names,
    limits=st.builds(
        TrialLimits, steps=st.integers(1, 99), seconds=st.floats(1, 1e6), tokens=st.none() | st.integers(1, 9)
    ),
    uses=st.none() | names,
    clairvoyant=st.booleans(),
)

FORMS: dict[str, tuple[serialization.JsonSerializer[Any], st.SearchStrategy[Any]]] = {
    "question": (serialization.QUESTION, questions()),
    "prediction": (serialization.PREDICTION, predictions),
    "predictions": (serialization.PREDICTIONS, answers),
    "belief": (serialization.BELIEF, beliefs),
    "step": (serialization.STEP, steps),
    "trial": (serialization.TRIAL, trials),
    "outcome": (serialization.OUTCOME, outcomes),
    "forecast": (serialization.FORECAST, forecasts),
    "resolution": (serialization.RESOLUTION, resolutions),
    "fitted": (serialization.FITTED, learned),
    "setup": (serialization.SETUP, setups),
}


@pytest.mark.parametrize("name", FORMS)
@given(data=st.data())
def test_what_is_written_is_read_back_and_written_the_same(name: str, data: st.DataObject) -> None:
    form, values = FORMS[name]
    value = data.draw(values)
    text = form.encode(value)
    again = form.decode(text)
    assert again == value
    assert form.encode(again) == text
    assert json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False) == text


def test_every_form_of_the_ledger_is_tested() -> None:
    forms = {value for value in vars(serialization).values() if isinstance(value, serialization.JsonSerializer)}
    assert {form for form, _ in FORMS.values()} == forms


@given(first=moments, second=moments)
def test_the_order_of_stamps_is_the_order_of_time(first: datetime, second: datetime) -> None:
    assert (serialization.format_timestamp(first) < serialization.format_timestamp(second)) == (first < second)
    assert len(serialization.format_timestamp(first)) == len(serialization.format_timestamp(second)) == 27
    assert serialization.parse_timestamp(serialization.format_timestamp(first)) == first


def test_a_stamp_is_utc_in_iso_8601() -> None:
    noon_in_delhi = datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert serialization.format_timestamp(noon_in_delhi) == "2026-03-01T06:30:00.000000Z"
    assert serialization.format_timestamp(None) is None
    assert serialization.parse_timestamp(None) is None


def test_a_field_with_its_default_is_left_out_so_that_new_fields_change_no_digest() -> None:
    question = Question(ref=QuestionRef("v", "k"), title="T", shape=BinaryShape(), targets=(Target(),))
    assert (
        serialization.QUESTION.encode(question) == '{"ref":"v:k","shape":{"kind":"binary"},"targets":[{}],"title":"T"}'
    )


@pytest.mark.parametrize(("value", "same"), [(1, 1.0), (0.0, -0.0)])
def test_equal_probabilities_have_one_text(value: float, same: float) -> None:
    assert serialization.PREDICTION.encode(BinaryPrediction(value)) == serialization.PREDICTION.encode(
        BinaryPrediction(same)
    )


def test_the_version_of_a_question_ignores_the_crowd_alone(make_question: Callable[..., Question]) -> None:
    question = make_question()
    crowded = make_question(crowd=CrowdForecast(prediction=BinaryPrediction(0.5), at=NOON))
    renamed = make_question(title="Another?")
    assert (
        serialization.question_version(question)
        == serialization.question_version(crowded)
        != serialization.question_version(renamed)
    )
    everything = make_question(crowd=crowded.crowd, tags=("rain",), tournaments=("cup",), facts={"currency": "USD"})
    plain = serialization.QUESTION.encode(everything.without_metadata)
    assert serialization.QUESTION.text(serialization.plain_content(everything)) == plain
    assert serialization.question_version(everything) == hashlib.sha256(plain.encode()).hexdigest()


@pytest.fixture
def make_question() -> Callable[..., Question]:
    def make(**changes: Any) -> Question:
        plain = Question(ref=QuestionRef("v", "k"), title="T", shape=BinaryShape(), targets=(Target(),))
        return replace(plain, **changes)

    return make


def test_lone_surrogates_become_the_replacement_character_and_pairs_their_character() -> None:
    question = Question(
        ref=QuestionRef("v", "k"), title="a\ud800b \ud83d\ude00", shape=BinaryShape(), targets=(Target(),)
    )
    text = serialization.QUESTION.encode(question)
    assert serialization.QUESTION.decode(text).title == "a\ufffdb \U0001f600"
    text.encode()


@pytest.mark.parametrize("title", ["plain", "caf\u00e9", "a\ud800b", "\ud83d\ude00", "has hunter2-and-more in it"])
def test_a_value_as_it_will_be_read_is_what_its_text_says(make_question: Callable[..., Question], title: str) -> None:
    question = make_question(title=title)
    with temporary_secrets():
        register_secrets("hunter2-and-more")
        text, as_read = serialization.QUESTION.encode_as_read(question)
        assert text == serialization.QUESTION.encode(question)
    assert as_read == serialization.QUESTION.decode(text)
    assert "hunter2" not in as_read.title


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_arguments_that_json_cannot_say_are_refused(number: float) -> None:
    action = StepAction(name="a", arguments={"x": number})
    with pytest.raises(MalformedDataError, match="JSON cannot hold"):
        serialization.STEP.encode(Step(action=action, observation=StepObservation(), belief=Belief(predictions={})))


def test_a_nan_among_the_evidence_is_refused() -> None:
    belief = Belief(predictions={}, evidence_for=(Evidence(text="t", source="s", log_odds=math.nan),))
    with pytest.raises(MalformedDataError, match="JSON cannot hold"):
        serialization.BELIEF.encode(belief)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind":"odd"}', '{"kind":"binary","probability":2}', '"x"'])
def test_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(MalformedDataError, match="not a stored prediction"):
        serialization.PREDICTION.decode(text)


@given(prediction=predictions)
def test_a_prediction_fits_two_columns_of_which_one_is_used(prediction: Prediction) -> None:
    probability, body = serialization.pack_prediction(prediction)
    assert (probability is None) != (body is None)
    assert serialization.unpack_prediction(probability, body) == prediction


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_an_outcome_beyond_an_open_bound_is_json_all_the_same(value: float) -> None:
    text = serialization.OUTCOME.encode(NumericOutcome(value))
    assert json.loads(text) == {"kind": "landed", "value": str(value)}
    assert serialization.OUTCOME.decode(text) == NumericOutcome(value)


def test_nesting_that_json_cannot_hold_is_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    circular: list[object] = []
    circular.append(circular)
    for value in (deep, circular):
        with pytest.raises(MalformedDataError, match="JSON cannot hold"):
            RECORDING_SERIALIZER.encode({"value": value})
