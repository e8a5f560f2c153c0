import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import MalformedDataError
from plugins.baseline.parameters import (
    BaselineParameters,
    decode_parameters,
    encode_parameters,
    merge_parameters,
)

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


def test_each_form_comes_from_the_fit_that_saw_most_of_it() -> None:
    shipped = BaselineParameters(
        before=date(2026, 1, 1),
        rows={"fred": 5, "exchange": 90},
        coefficients={"market": {"slope": 1.1}, "fred": {"share index": 0.4}},
        evidence={"market": 90, "fred": 5},
    )
    bare = BaselineParameters(
        before=date(2026, 2, 1),
        rows={"fred": 900},
        coefficients={"any_market": {"all": -2.0}, "fred": {"share index": 0.2}},
        blank=("acled",),
        evidence={"any_market": 3000, "fred": 900},
    )
    merged = merge_parameters([shipped, bare])
    assert merged.coefficients == {
        "any_market": {"all": -2.0},
        "fred": {"share index": 0.2},
        "market": {"slope": 1.1},
    }
    assert (merged.before, merged.blank) == (date(2026, 2, 1), ("acled",))
    assert merged.rows == {"fred": 900, "exchange": 90}
    assert merged == merge_parameters([bare, shipped])


def test_a_fit_of_an_earlier_version_is_read_and_gives_way_to_counted_evidence() -> None:
    old = decode_parameters(STORED)
    assert old.evidence == {}
    new = BaselineParameters(before=date(2026, 1, 1), coefficients={"market": {"slope": 1.2}}, evidence={"market": 1})
    assert merge_parameters([old, new]).coefficients["market"] == {"slope": 1.2}


def test_parameters_cannot_be_changed() -> None:
    parameters = decode_parameters(STORED)
    with pytest.raises(TypeError):
        parameters.coefficients["market"]["slope"] = 2.0  # type: ignore[index]  # that it fails is the point
