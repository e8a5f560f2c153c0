import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import MalformedDataError
from plugins.baseline.parameters import BaselineParameters, decode_parameters, encode_parameters

STORED: dict[str, Any] = {
    "edition": 1,
    "before": "2026-04-26",
    "rows": {"fred": 3},
    "coefficients": {"market": {"slope": 1.1}},
    "blank": ["acled"],
}


@given(
    st.dates(),
    st.dictionaries(st.text(), st.integers(0, 10**6)),
    st.dictionaries(st.text(), st.dictionaries(st.text(), st.floats(-50.0, 50.0))),
)
def test_parameters_survive_json(before: date, rows: dict[str, int], coefficients: dict[str, dict[str, float]]) -> None:
    parameters = BaselineParameters(before=before, rows=rows, coefficients=coefficients, blank=("acled",))
    assert decode_parameters(json.loads(json.dumps(encode_parameters(parameters)))) == parameters


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"edition": 2}, "edition"),
        ({"before": "soon"}, "before"),
        ({"rows": {"fred": -1}}, "rows.fred"),
        ({"coefficients": {"market": {"slope": float("nan")}}}, "coefficients.market.slope"),
        ({"coefficients": {"market": {"slope": 1e9}}}, "coefficients.market.slope"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_damaged_file_is_refused_by_the_name_of_the_key(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(MalformedDataError, match=fault):
        decode_parameters({**STORED, **change})


def test_a_missing_key_is_refused() -> None:
    with pytest.raises(MalformedDataError, match="coefficients"):
        decode_parameters({key: value for key, value in STORED.items() if key != "coefficients"})


def test_parameters_cannot_be_changed() -> None:
    parameters = decode_parameters(STORED)
    with pytest.raises(TypeError):
        parameters.coefficients["market"]["slope"] = 2.0  # type: ignore[index]  # that it fails is the point
