"""What was planted, what the pipeline found of it, and whether that is a recovery: one line each, with its figures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.testing.lab.answers import Answers
from bot.testing.lab.correcting import slope_of, spread_of
from bot.testing.lab.questions import Case
from bot.testing.lab.tables import Line, Row, Span, clusters_of, scored
from bot.testing.lab.variants import FACTOR, REFERENCE

if TYPE_CHECKING:
    import numpy as np

# So much of what reached the forecaster must the audit find, and so much at most may the guards let in.
FOUND_AT_LEAST, LET_IN_AT_MOST = 0.9, 0.1
# Of an interval that takes fits, not only means.
RESAMPLES = 200
OPEN, CLAIRVOYANT, TRUTH = "judge lets all pass", "clairvoyant", "true chance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One line: what was planted and what was found in words, the verdict, and the figures behind them."""

    name: str
    planted: str
    found: str
    recovered: bool
    figures: Mapping[str, float] = field(default_factory=dict)


def overconfidence_corrected(
    plain: Answers, bold: Answers, cases: Sequence[Case], rng: "np.random.Generator", *, resamples: int = RESAMPLES
) -> Recovery:
    """Say whether outcomes show that a bold mind is too sure, and what the gate makes of its answers.

    Its calibration slope is by how much a fit over outcomes multiplies its log-odds: below 1 where it is too sure, and
    not above 0 where its answers tell nothing of outcomes.
    """
    own = _slope(bold.said(1), cases, rng, resamples)
    straight = _slope(plain.said(1), cases, rng, resamples)
    too_sure = own.low > 0.0 and own.high < 1.0
    found = (
        f"calibration slope {_bare(own)} by a fit over {len(cases)} outcomes, "
        f"{'' if too_sure else 'not '}shown to lie between 0 and 1; of the same mind without the factor "
        f"{_bare(straight)}; "
    )
    figures = {f"slope{end}": figure for end, figure in _ends(own)}
    figures |= {f"plain_slope{end}": figure for end, figure in _ends(straight)}
    moved = bold.corrected.adopted if bold.corrected else ()
    figures["moved"] = float(len(moved))
    if not moved or bold.corrected is None:
        found += "too few outcomes for the gate, which moved nothing"
        return Recovery(name="overconfidence", planted=_bold(), found=found, recovered=False, figures=figures)
    before, gain = _gain(bold.said(1), bold.corrected.answers, [*moved], cases, rng)
    found += (
        f"the gate, by outcomes known before each cutoff, moved {len(moved)} of them: Brier there {before:.4f} -> "
        f"{before + gain.estimate:.4f}, difference {_shown(gain)}; of the mind without the factor it moved "
        f"{len(plain.corrected.adopted) if plain.corrected else 0}"
    )
    figures |= {"brier_before": before, **{f"gain{end}": figure for end, figure in _ends(gain)}}
    recovered = too_sure and gain.high < 0.0
    return Recovery(name="overconfidence", planted=_bold(), found=found, recovered=recovered, figures=figures)


def leaks_found(found: Mapping[str, Answers], rows: Mapping[str, Row]) -> Iterator[Recovery]:
    """Say whether leaks inflate a backtest that lets them in, whether the audit finds them, and the guards hold."""
    guarded, let_in = found[REFERENCE].leaks, found[OPEN].leaks
    assert guarded is not None  # noqa: S101 - both are audited
    assert let_in is not None  # noqa: S101 - as above
    gain, beyond = rows[OPEN].difference, rows[CLAIRVOYANT].difference
    assert gain is not None  # noqa: S101 - both are held against the guarded one
    assert beyond is not None  # noqa: S101 - as above
    planted = f"articles rewritten with the outcome, under their old dates: searches brought {let_in.met}"
    share = let_in.caught / max(1, let_in.let_in)
    yield Recovery(
        name="leaks inflate",
        planted=f"{planted}; a judge of texts who lets all pass",
        found=f"{let_in.let_in} reached the forecaster; Brier {rows[OPEN].brier:.4f}, {_shown(gain)} against guarded; "
        f"without any guard {rows[CLAIRVOYANT].brier:.4f}, {_shown(beyond)}, where the true chance has "
        f"{rows[TRUTH].brier:.4f}",
        recovered=gain.high < 0.0 and rows[CLAIRVOYANT].brier < rows[TRUTH].brier,
        figures={"gain": gain.estimate, "gain_low": gain.low, "gain_high": gain.high},
    )
    yield Recovery(
        name="audit finds leaks",
        planted=f"{let_in.let_in} such articles among what the forecaster read",
        found=f"the audit of leaks found {let_in.caught} of them; besides, {let_in.fakes} texts that only pretend to "
        f"tell an outcome, and {let_in.wrongly} others",
        recovered=let_in.let_in > 0 and share >= FOUND_AT_LEAST,
        figures={"planted": float(let_in.let_in), "caught": float(let_in.caught), "wrongly": float(let_in.wrongly)},
    )
    passed, truth = guarded.let_in / max(1, guarded.met), rows[TRUTH].difference
    assert truth is not None  # noqa: S101 - it is held against the guarded one
    yield Recovery(
        name="guards hold",
        planted=f"{guarded.met} such articles that searches brought to the guarded forecaster",
        found=f"{guarded.let_in} of them reached it; its Brier is {rows[REFERENCE].brier:.4f}, that of the true chance "
        f"{rows[TRUTH].brier:.4f}, {_shown(truth)} against it",
        # More than the truth itself nobody knows who was told nothing.
        recovered=guarded.met > 0 and passed <= LET_IN_AT_MOST and truth.low <= 0.0,
        figures={"planted": float(guarded.met), "let_in": float(guarded.let_in)},
    )


def _bold() -> str:
    return (
        f"a mind that multiplies the log-odds of another by {FACTOR:g} and answers the same prompts, so that its slope "
        f"is the other's divided by {FACTOR:g}; whether that is too sure only outcomes tell"
    )


def _slope(answers: Sequence[float], cases: Sequence[Case], rng: "np.random.Generator", resamples: int) -> Span:
    """Return the calibration slope of answers against outcomes, groups of questions drawn again."""

    def slope(places: Sequence[int]) -> float:
        return slope_of([answers[place] for place in places], [float(cases[place].outcome) for place in places])

    return spread_of(slope, clusters_of(cases), rng, resamples=resamples)


def _gain(
    before: Sequence[float],
    after: Sequence[float],
    places: Sequence[int],
    cases: Sequence[Case],
    rng: "np.random.Generator",
) -> tuple[float, Span]:
    """Return the Brier score before, and the paired difference after, at these places alone."""
    lines = [
        Line(name="before", part="", answers=[before[place] for place in places]),
        Line(name="after", part="", answers=[after[place] for place in places], against="before"),
    ]
    rows = scored(lines, [cases[place] for place in places], rng)
    assert rows[1].difference is not None  # noqa: S101 - it is held against the first
    return rows[0].brier, rows[1].difference


def _ends(span: Span) -> Iterator[tuple[str, float]]:
    """Yield the figures of a span by what is put behind its name."""
    yield from (("", span.estimate), ("_low", span.low), ("_high", span.high))


def _bare(span: Span) -> str:
    return f"{span.estimate:.2f} [{span.low:.2f}, {span.high:.2f}]"


def _shown(span: Span) -> str:
    return f"{span.estimate:+.4f} [{span.low:+.4f}, {span.high:+.4f}]"
