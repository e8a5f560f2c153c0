"""The result of a fit: the coefficients of every form, with their provenance, as a value that becomes JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import Annotated, Literal, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from bot.api import Json, MalformedDataError

# Raised whenever a coefficient changes its meaning, so that a stored fit is never read as another one.
EDITION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineParameters:
    """Coefficients by form and name, and what they were fitted on.

    Every outcome used was known before the day ``before``; ``rows`` counts them by source and ``evidence`` by form. A
    form or coefficient that is missing is at its prior, so ``BaselineParameters(before=day)`` is a forecaster without
    any data. ``blank`` names the sources whose latest round carried no values, so that their lowest value is to be
    doubted.
    """

    before: date
    rows: Mapping[str, int] = field(default_factory=dict)
    coefficients: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    blank: tuple[str, ...] = ()
    evidence: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Freeze the mappings."""
        frozen = {form: MappingProxyType(dict(found)) for form, found in self.coefficients.items()}
        object.__setattr__(self, "rows", MappingProxyType(dict(self.rows)))
        object.__setattr__(self, "coefficients", MappingProxyType(frozen))
        object.__setattr__(self, "evidence", MappingProxyType(dict(self.evidence)))


def merge_parameters(fits: Sequence[BaselineParameters]) -> BaselineParameters:
    """Return for each form the coefficients of the fit that saw most outcomes of it, the newest of equals.

    So a fit to many outcomes without prices does not replace a market slope that was fitted to prices.
    """
    newest = max(fits, key=lambda fit: fit.before)
    forms = dict.fromkeys(form for fit in fits for form in fit.coefficients)
    best = {
        form: max(
            (fit for fit in fits if form in fit.coefficients),
            key=lambda fit, form=form: (fit.evidence.get(form, 0), fit.before),  # type: ignore[misc]
        )
        for form in sorted(forms)
    }
    return BaselineParameters(
        before=newest.before,
        rows={source: max(fit.rows.get(source, 0) for fit in fits) for fit in fits for source in fit.rows},
        coefficients={form: fit.coefficients[form] for form, fit in best.items()},
        blank=newest.blank,
        evidence={form: fit.evidence.get(form, 0) for form, fit in best.items()},
    )


# Log odds beyond this cannot be justified by data of this size: a sign of a damaged file.
_Coefficient = Annotated[float, Field(ge=-50.0, le=50.0, allow_inf_nan=False)]


@with_config(ConfigDict(extra="forbid"))
class _StoredParameters(TypedDict):
    edition: Literal[1]
    before: date
    rows: dict[str, Annotated[int, Field(ge=0)]]
    coefficients: dict[str, dict[str, _Coefficient]]
    blank: list[str]
    # Fits of earlier versions do not have it.
    evidence: NotRequired[dict[str, Annotated[int, Field(ge=0)]]]


def encode_parameters(parameters: BaselineParameters) -> dict[str, Json]:
    """Return the parameters as a JSON object with the fields of ``BaselineParameters`` and its ``edition``."""
    return {
        "edition": EDITION,
        "before": parameters.before.isoformat(),
        "rows": dict(parameters.rows),
        "coefficients": {form: dict(found) for form, found in parameters.coefficients.items()},
        "blank": list(parameters.blank),
        "evidence": dict(parameters.evidence),
    }


def decode_parameters(stored: Mapping[str, object]) -> BaselineParameters:
    """Read what ``encode_parameters`` wrote.

    Raises MalformedDataError naming each key that is missing, unknown or out of range.
    """
    try:
        checked = TypeAdapter(_StoredParameters).validate_python(dict(stored))
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        message = f"baseline parameters: {faults}"
        raise MalformedDataError(message) from error
    return BaselineParameters(
        before=checked["before"],
        rows=checked["rows"],
        coefficients=checked["coefficients"],
        blank=tuple(checked["blank"]),
        evidence=checked.get("evidence", {}),
    )
