"""`foxcast pairs` as a person uses it: questions of two venues are matched, judged, confirmed and refused."""

from pathlib import Path

import pytest

from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand, installed

PLUGIN = Path(__file__).with_name("fake_paired_venues.py")
CONFIG = f"""
plugins = ["fake_paired_venues", "baseline", "blend"]
plugin_files = ["{PLUGIN}"]

[venues.alpha]
forecasters = ["blend"]

[venues.beta]
forecasters = ["blend"]

[forecasters.blend.settings]
members = ["crowd", "elsewhere"]
"""
JUDGED = f"""{CONFIG}
[llm.roles.matcher]
model = "judge:small"

[pairs]
use = "judged"
"""


@pytest.fixture
def two_venues(tmp_path: Path) -> FoxcastInstallation:
    return installed(tmp_path, CONFIG)


def test_a_pair_is_listed_confirmed_and_refused_by_the_beginning_of_its_id(
    two_venues: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    assert run_command(two_venues, "pairs").is_refusal(8, "no ledger")
    passed = run_command(two_venues, "run", "--once")
    assert "1 pairs proposed, 0 judged" in passed.out
    (pair,) = run_command(two_venues, "pairs", "--json").json
    assert (pair["state"], pair["used"], pair["exact"]) == ("proposed", False, True)
    assert pair["difference"] == pytest.approx(0.22 - 0.62)
    listed = run_command(two_venues, "pairs").out
    for text in (pair["id"][:8], "22.0% / 62.0%", "-0.400", "- / 0.020", "1,200 / -", "foxcast pairs show ID"):
        assert text in listed
    shown = run_command(two_venues, "pairs", "show", pair["id"][:8]).out
    assert "As the keeper of alpha says." in shown
    assert "Great lamp lit by the end of 2089?" in shown
    for command, state, used in (("confirm", "confirmed", True), ("refuse", "refused", False)):
        answer = run_command(two_venues, "pairs", command, pair["id"][:8])
        assert f"of alpha:lamp and beta:lamp is {state} by" in answer.out
        (after,) = run_command(two_venues, "pairs", "--all", "--json").json
        assert (after["state"], after["used"]) == (state, used)
    assert "no pair is proposed or confirmed" in run_command(two_venues, "pairs").out
    assert run_command(two_venues, "pairs", "confirm", "feedbeef").is_refusal(8, "there is no such pair")
    assert "confirmed" in run_command(two_venues, "audit", "show").out


def test_what_a_model_judges_the_same_is_a_member_of_the_blend_in_the_same_pass(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    foxcast = installed(tmp_path, JUDGED)
    passed = run_command(foxcast, "run", "--once")
    assert "1 pairs proposed, 1 judged" in passed.out
    (pair,) = run_command(foxcast, "pairs", "--json").json
    assert (pair["state"], pair["by"], pair["reason"]) == ("same", "judge:small", "Both ask about the great lamp.")
    shown = run_command(foxcast, "show", "alpha:lamp").out
    assert "0.620 at beta:lamp" in shown
    assert "its question differs: another keeper" in shown
    assert "judge:small" in run_command(foxcast, "costs").out


def test_without_the_job_no_pair_is_looked_for(tmp_path: Path, run_command: InProcessCommand) -> None:
    foxcast = installed(tmp_path, f"{CONFIG}\n[pairs]\nenabled = false\n")
    assert "pairs proposed" not in run_command(foxcast, "run", "--once").out
    assert run_command(foxcast, "pairs", "--json").json == []
