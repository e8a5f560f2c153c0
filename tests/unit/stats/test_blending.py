"""The weights of a blend, against a minimum that another library finds."""

import numpy as np
import pytest
from scipy.optimize import minimize

from bot.stats.blending import PRIOR_TOTAL, BlendExample, BlendWeights, SourceKind, fit_blend_weights

SPREAD = 0.1
MEMBERS = ("model", "table")


def example(model: float | None, table: float | None, outcome: float, *, block: str, source: str = "a") -> BlendExample:
    answers = {"model": model, "table": table}
    return BlendExample(
        answers={name: value for name, value in answers.items() if value is not None},
        kind=SourceKind.SERIES,
        source=source,
        outcome=outcome,
        block=block,
    )


def logit(p: float) -> float:
    return float(np.log(p / (1.0 - p)))


def random_examples(count: int = 120) -> list[BlendExample]:
    rng = np.random.default_rng(3)
    truth = rng.normal(size=count)
    noisy = truth[:, None] + rng.normal(size=(count, 2))
    outcomes = rng.random(count) < 1.0 / (1.0 + np.exp(-2.0 * truth))
    shares = 1.0 / (1.0 + np.exp(-noisy))
    return [
        example(
            float(shares[i, 0]),
            float(shares[i, 1]) if i % 4 else None,
            float(outcomes[i]),
            block=f"b{i % 30}",
            source="ab"[i % 2],
        )
        for i in range(count)
    ]


def test_weights_are_the_penalised_optimum_with_blocks_counted_once() -> None:
    examples = random_examples()
    fitted = fit_blend_weights(examples, MEMBERS)

    # The same problem written down again: coefficients are kind and source a and b of each member.
    design = np.zeros((len(examples), 6))
    for row, one in zip(design, examples, strict=True):
        scale = 2.0 / len(one.answers)
        for place, name in enumerate(MEMBERS):
            if name in one.answers:
                row[3 * place] = row[3 * place + 1 + "ab".index(one.source)] = scale * logit(one.answers[name])
    outcomes = np.array([one.outcome for one in examples])
    weights = np.full(len(examples), 1.0 / 4.0)
    prior = np.array([0.575, 0.0, 0.0, 0.575, 0.0, 0.0])

    def loss(at: np.ndarray) -> float:
        margins = design @ at
        return float(
            weights @ (np.logaddexp(0.0, margins) - outcomes * margins) + ((at - prior) ** 2).sum() / (2 * SPREAD**2)
        )

    best = minimize(loss, prior, method="BFGS", options={"gtol": 1e-10}).x
    found = fitted.weights(SourceKind.SERIES, "b", MEMBERS)
    assert found == pytest.approx({"model": best[0] + best[2], "table": best[3] + best[5]}, abs=1e-5)
    assert max(abs(weight - 0.575) for weight in found.values()) > 0.003
    assert (fitted.examples, fitted.blocks) == (120, 30)


def test_before_any_outcome_weights_are_equal_and_sum_to_more_than_one() -> None:
    blend = BlendWeights(members=MEMBERS)
    assert blend.weights(SourceKind.PRICED, "x", MEMBERS) == {"model": PRIOR_TOTAL / 2, "table": PRIOR_TOTAL / 2}
    pooled = blend.pool({"model": 0.7, "table": 0.4}, SourceKind.PRICED, "x")
    assert pooled == pytest.approx(1.15 * (logit(0.7) + logit(0.4)) / 2)


def test_a_member_without_an_answer_leaves_its_weight_to_the_others() -> None:
    assert BlendWeights(members=MEMBERS).pool({"table": 0.4}, SourceKind.PRICED, "x") == pytest.approx(
        1.15 * logit(0.4)
    )


def test_a_kind_that_was_never_seen_keeps_the_prior() -> None:
    fitted = fit_blend_weights(random_examples(), MEMBERS)
    assert fitted.weights(SourceKind.PRICED, "c", MEMBERS) == {"model": 0.575, "table": 0.575}


def test_a_source_with_few_outcomes_gets_the_weights_of_its_kind() -> None:
    fitted = fit_blend_weights(random_examples(), MEMBERS)
    own, new = (fitted.weights(SourceKind.SERIES, source, MEMBERS) for source in ("a", "new"))
    assert new["model"] == pytest.approx(fitted.coefficients["model | series"])
    assert own != new


def test_weights_are_never_negative() -> None:
    wrong = [example(0.99, 0.5, 0.0, block=str(i)) for i in range(3000)]
    assert fit_blend_weights(wrong, MEMBERS).weights(SourceKind.SERIES, "a", MEMBERS)["model"] == 0.0


def test_a_blend_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="needs members"):
        BlendWeights(members=())
    with pytest.raises(ValueError, match="no member of the blend has an answer"):
        BlendWeights(members=MEMBERS).pool({}, SourceKind.PRICED, "x")
