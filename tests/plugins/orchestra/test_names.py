"""Subagents are known by one name each, however a model writes it."""

import pytest

from plugins.orchestra.shared_memory import normalize_name
from tests.plugins.orchestra.cases import make, move, parallel, refusals, report


async def test_a_name_is_known_however_it_is_written() -> None:
    look = {"operation": "status", "name": "ANN LEE"}
    made, refused, status = await refusals(make("Ann Lee!"), make("ann_lee"), move("subagents", look))
    assert made.startswith("ann_lee is ready")
    assert 'the name "ann_lee" is taken' in refused
    assert status.startswith("ann_lee")


async def test_two_spellings_of_one_name_are_two_runs_of_one_subagent() -> None:
    others = {"ann_lee": [report("north"), report("south")]}
    told = await refusals(make("ann_lee"), parallel("Ann Lee", "ann-lee"), others=others)
    assert told[-1].count("ann_lee reported") == 2


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
