"""Planted effects (overconfidence, leaks), and whether the pipeline finds them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from bot.core.light_dataclass import dataclass
from bot.simulator.laboratory.answers import ForecasterAnswers
from bot.simulator.laboratory.calibration import bootstrap_interval, calibration_slope
from bot.simulator.laboratory.forecaster_variants import OVERCONFIDENCE_FACTOR, REFERENCE
from bot.simulator.laboratory.questions import LaboratoryQuestion
from bot.simulator.laboratory.score_table import (
    AnswerLine,
    IntervalEstimate,
    LaboratoryScore,
    question_clusters,
    score_lines,
)

if TYPE_CHECKING:
    import numpy as np

# The share of leaked texts that the audit must find, and the share that the guards may let in.
MIN_LEAKS_FOUND, MAX_LEAKS_LET_IN = 0.9, 0.1
# Resamples of an interval that needs fits, not only means.
RESAMPLES = 200
LENIENT_JUDGE, CLAIRVOYANT, TRUTH = "judge lets all pass", "clairvoyant", "true chance"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecovery:
    """One line: the planted effect and the finding in words, the verdict, and the figures behind them."""

    name: str
    planted: str
    found: str
    recovered: bool
    figures: Mapping[str, float] = field(default_factory=dict)


def check_overconfidence(
    plain: ForecasterAnswers,
    bold: ForecasterAnswers,
    cases: Sequence[LaboratoryQuestion],
    rng: "np.random.Generator",
    *,
    resamples: int = RESAMPLES,
) -> EffectRecovery:
    """Return whether outcomes show that a bold model is overconfident, and the gate's effect on its answers.

    Its calibration slope is the factor by which a fit over outcomes multiplies its log-odds: below 1 where it is
    overconfident, and not above 0 where its answers do not predict outcomes.
    """
    own = _slope_estimate(bold.pooled_answers(1), cases, rng, resamples)
    straight = _slope_estimate(plain.pooled_answers(1), cases, rng, resamples)
    too_sure = own.low > 0.0 and own.high < 1.0
    found = (
        f"calibration slope {_interval_text(own)} by a fit over {len(cases)} outcomes, "
        f"{'' if too_sure else 'not '}shown to lie between 0 and 1; of the same mind without the factor "
        f"{_interval_text(straight)}; "
    )
    figures = {f"slope{end}": figure for end, figure in _interval_figures(own)}
    figures |= {f"plain_slope{end}": figure for end, figure in _interval_figures(straight)}
    moved = bold.corrected.adopted if bold.corrected else ()
    figures["moved"] = float(len(moved))
    if not moved or bold.corrected is None:
        found += "too few outcomes for the gate, which moved nothing"
        return EffectRecovery(
            name="overconfidence", planted=_bold_description(), found=found, recovered=False, figures=figures
        )
    before, gain = _brier_gain(bold.pooled_answers(1), bold.corrected.answers, [*moved], cases, rng)
    found += (
        f"the gate, by outcomes known before each cutoff, moved {len(moved)} of them: Brier there {before:.4f} -> "
        f"{before + gain.estimate:.4f}, difference {_estimate_text(gain)}; of the mind without the factor it moved "
        f"{len(plain.corrected.adopted) if plain.corrected else 0}"
    )
    figures |= {"brier_before": before, **{f"gain{end}": figure for end, figure in _interval_figures(gain)}}
    recovered = too_sure and gain.high < 0.0
    return EffectRecovery(
        name="overconfidence", planted=_bold_description(), found=found, recovered=recovered, figures=figures
    )


def check_leaks(
    found: Mapping[str, ForecasterAnswers], rows: Mapping[str, LaboratoryScore]
) -> Iterator[EffectRecovery]:
    """Return whether leaks inflate a backtest that lets them in, whether the audit finds them, and the guards hold."""
    guarded, let_in = found[REFERENCE].leaks, found[LENIENT_JUDGE].leaks
    assert guarded is not None  # noqa: S101 - both are audited
    assert let_in is not None  # noqa: S101 - as above
    gain, beyond = rows[LENIENT_JUDGE].difference, rows[CLAIRVOYANT].difference
    assert gain is not None  # noqa: S101 - both are held against the guarded one
    assert beyond is not None  # noqa: S101 - as above
    planted = f"articles rewritten with the outcome, under their old dates: searches brought {let_in.found_by_search}"
    share = let_in.caught / max(1, let_in.let_in)
    yield EffectRecovery(
        name="leaks inflate",
        planted=f"{planted}; a judge of texts who lets all pass",
        found=f"{let_in.let_in} reached the forecaster; Brier {rows[LENIENT_JUDGE].brier:.4f}, "
        f"{_estimate_text(gain)} against guarded; "
        f"without any guard {rows[CLAIRVOYANT].brier:.4f}, {_estimate_text(beyond)}, where the true chance has "
        f"{rows[TRUTH].brier:.4f}",
        recovered=gain.high < 0.0 and rows[CLAIRVOYANT].brier < rows[TRUTH].brier,
        figures={"gain": gain.estimate, "gain_low": gain.low, "gain_high": gain.high},
    )
    yield EffectRecovery(
        name="audit finds leaks",
        planted=f"{let_in.let_in} such articles among what the forecaster read",
        found=f"the audit of leaks found {let_in.caught} of them; besides, {let_in.fakes} texts that only pretend to "
        f"tell an outcome, and {let_in.false_alarms} others",
        recovered=let_in.let_in > 0 and share >= MIN_LEAKS_FOUND,
        figures={
            "planted": float(let_in.let_in),
            "caught": float(let_in.caught),
            "wrongly": float(let_in.false_alarms),
        },
    )
    passed, truth = guarded.let_in / max(1, guarded.found_by_search), rows[TRUTH].difference
    assert truth is not None  # noqa: S101 - it is held against the guarded one
    yield EffectRecovery(
        name="guards hold",
        planted=f"{guarded.found_by_search} such articles that searches brought to the guarded forecaster",
        found=f"{guarded.let_in} of them reached it; its Brier is {rows[REFERENCE].brier:.4f}, that of the true chance "
        f"{rows[TRUTH].brier:.4f}, {_estimate_text(truth)} against it",
        # Nobody without leaks knows more than the truth itself.
        recovered=guarded.found_by_search > 0 and passed <= MAX_LEAKS_LET_IN and truth.low <= 0.0,
        figures={"planted": float(guarded.found_by_search), "let_in": float(guarded.let_in)},
    )


def _bold_description() -> str:
    return (
        f"a mind that multiplies the log-odds of another by {OVERCONFIDENCE_FACTOR:g} and answers the same prompts, "
        f"so that its slope is the other's divided by {OVERCONFIDENCE_FACTOR:g}; "
        "whether that is too sure only outcomes tell"
    )


def _slope_estimate(
    answers: Sequence[float], cases: Sequence[LaboratoryQuestion], rng: "np.random.Generator", resamples: int
) -> IntervalEstimate:
    """Return the calibration slope of answers against outcomes, resampling groups of questions."""

    def slope(places: Sequence[int]) -> float:
        return calibration_slope(
            [answers[place] for place in places], [float(cases[place].outcome) for place in places]
        )

    return bootstrap_interval(slope, question_clusters(cases), rng, resamples=resamples)


def _brier_gain(
    before: Sequence[float],
    after: Sequence[float],
    places: Sequence[int],
    cases: Sequence[LaboratoryQuestion],
    rng: "np.random.Generator",
) -> tuple[float, IntervalEstimate]:
    """Return the Brier score before, and the paired difference after, at these places only."""
    lines = [
        AnswerLine(name="before", part="", answers=[before[place] for place in places]),
        AnswerLine(name="after", part="", answers=[after[place] for place in places], reference="before"),
    ]
    rows = score_lines(lines, [cases[place] for place in places], rng)
    assert rows[1].difference is not None  # noqa: S101 - it is held against the first
    return rows[0].brier, rows[1].difference


def _interval_figures(span: IntervalEstimate) -> Iterator[tuple[str, float]]:
    """Yield the figures of an interval under names with these suffixes."""
    yield from (("", span.estimate), ("_low", span.low), ("_high", span.high))


def _interval_text(span: IntervalEstimate) -> str:
    return f"{span.estimate:.2f} [{span.low:.2f}, {span.high:.2f}]"


def _estimate_text(span: IntervalEstimate) -> str:
    return f"{span.estimate:+.4f} [{span.low:+.4f}, {span.high:+.4f}]"
