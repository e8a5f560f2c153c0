"""Subagents are known by one name each, however a model writes it."""

import pytest

from plugins.orchestra.tool_schemas import normalize_name
from tests.plugins.orchestra.cases import make, move, parallel, refusals


async def test_a_name_is_known_however_it_is_written() -> None:
    look = {"operation": "status", "name": "ANN LEE"}
    made, refused, status = await refusals(make("Ann Lee!"), make("ann_lee"), move("subagents", look))
    assert made.startswith("ann_lee is there")
    assert 'the name "ann_lee" is taken' in refused
    assert status.startswith("ann_lee")


async def test_one_subagent_under_two_spellings_does_not_run_twice_at_once() -> None:
    told = await refusals(make("ann_lee"), make("bob"), parallel("Ann Lee", "ann-lee"))
    assert "each of the runs needs a subagent of its own" in told[2]


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("Ann-Lee!", "ann_lee"),
        ("Überprüfer", "uberprufer"),
        ("ﬁnder", "finder"),
        ("C++ expert", "c_expert"),
        ("y" * 38 + " _b", "y" * 38 + "_b"),
        ("y" * 60, "y" * 40),
        ("?!", ""),
    ],
)
def test_a_name_is_kept_in_one_form(written: str, kept: str) -> None:
    assert normalize_name(written) == normalize_name(kept) == kept
