"""Mixed-effects models of single trials: what methods contribute once the difficulty of questions is taken out."""

import math
import warnings
from importlib.util import find_spec

import numpy as np

from bot.core.errors import ConfigError
from bot.evaluation.report_tables import ReportCell, ReportColumn, ReportTable
from bot.evaluation.score_report import FAMILIES, ScoreInterval
from bot.evaluation.trial_scores import adjust_p_values, common_scores, question_cluster
from bot.evaluation.trial_table import TrialTable
from bot.stats.arrays import FloatArray, IntArray, encode_keys

INSTALL_COMMAND = "pip install 'foxcast[mixed]'"
NORMAL_95 = 1.959964


def require_mixed_effects() -> None:
    """Raise ConfigError, with the remedy, where statsmodels is not installed."""
    if find_spec("statsmodels") is None:
        message = f"mixed effects need statsmodels, which is not installed; install it with: {INSTALL_COMMAND}"
        raise ConfigError(message)


def fit_mixed_effects(table: TrialTable) -> ReportTable | None:
    """Return the effect of each method on the Brier score of a trial, with questions as random effects.

    A method without trials has its forecast as its only one; methods are compared on common events with the first
    method. None where there are fewer than two methods or questions. Source: BLF paper, appendix G.
    """
    rows: list[dict[str, ReportCell]] = []
    names = [*table.by_method]
    for family in FAMILIES if len(names) > 1 else ():
        rows += _fit_family(table, names, family)
    if not rows:
        return None
    p_values = [p for row in rows if isinstance(p := row["p_value"], float)]
    adjusted = iter(adjust_p_values(p_values))
    for row in rows:
        row["p_holm"] = next(adjusted) if isinstance(row["p_value"], float) else None
    return ReportTable(
        key="mixed_effects",
        title="Mixed effects: Brier score of a trial by method, questions as random effects",
        columns=(
            ReportColumn("family", "family"),
            ReportColumn("method", "method"),
            ReportColumn("reference", "compared with"),
            ReportColumn("scores", "scores"),
            ReportColumn("questions", "questions"),
            ReportColumn("effect", "effect [95 %]", 4),
            ReportColumn("p_value", "p", 4),
            ReportColumn("p_holm", "p, Holm", 4),
            ReportColumn("question_variance", "variance of questions", 4),
            ReportColumn("residual_variance", "of the rest", 4),
        ),
        rows=rows,
        notes=(
            (
                "An effect below zero is a better Brier score. The model is fitted by restricted maximum likelihood; p "
                "is of a normal approximation, which takes questions for independent: where outcomes share shocks, the "
                "paired comparisons by blocks are the honest ones."
            ),
        ),
    )


def _fit_family(table: TrialTable, names: list[str], family: str) -> list[dict[str, ReportCell]]:
    from statsmodels.regression.mixed_linear_model import MixedLM  # noqa: PLC0415 - an extra, and seconds

    events = [event for event in common_scores(table, names).events if table.family(event) == family]
    marks = [
        (place, question_cluster(event), (trial - (table.resolved[event].outcome or 0.0)) ** 2)
        for place, name in enumerate(names)
        for event in events
        for trial in table.by_method[name][event].trials or (table.by_method[name][event].forecast,)
    ]
    questions = encode_keys(mark[1] for mark in marks)
    if len(questions.labels) < 2:
        return []
    methods, scores = np.array([mark[0] for mark in marks]), np.array([mark[2] for mark in marks])
    design = np.column_stack([np.ones(len(marks)), *(methods == place for place in range(1, len(names)))]).astype(float)
    with warnings.catch_warnings():
        # Where questions do not differ, their variance is 0, at the edge of what it can be; gradients fail near there.
        warnings.simplefilter("ignore")
        fit = MixedLM(scores, design, groups=questions.codes).fit(reml=True, method="powell")
    variance, residual = float(np.asarray(fit.cov_re)[0, 0]), float(fit.scale)
    errors = _standard_errors(design, questions.codes, variance, residual)
    return [
        {
            "family": family,
            "method": name,
            "reference": names[0],
            "scores": len(marks),
            "questions": len(questions.labels),
            "effect": ScoreInterval(
                estimate=float(effect := fit.fe_params[place]),
                low=float(effect - NORMAL_95 * errors[place]),
                high=float(effect + NORMAL_95 * errors[place]),
            ),
            "p_value": math.erfc(abs(float(effect)) / float(errors[place]) / math.sqrt(2.0)),
            "question_variance": variance,
            "residual_variance": residual,
        }
        for place, name in enumerate(names)
        if place
    ]


def _standard_errors(design: FloatArray, questions: IntArray, variance: float, residual: float) -> FloatArray:
    """Return the standard errors of fixed effects under these variances, also where one is at its bound.

    The library inverts a numerical Hessian, which fails there. Source: generalised least squares with the covariance
    ``residual * I + variance * J`` within each question.
    """
    sums = np.zeros((int(questions.max()) + 1, design.shape[1]))
    np.add.at(sums, questions, design)
    shrinkage = variance / (residual + np.bincount(questions) * variance)
    information = (design.T @ design - sums.T @ (shrinkage[:, None] * sums)) / residual
    return np.asarray(np.sqrt(np.diag(np.linalg.inv(information))), dtype=np.float64)
