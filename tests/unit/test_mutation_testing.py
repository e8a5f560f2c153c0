"""What `make mutate` is to change exists, and so do the tests that must notice; on a small project it counts right."""

from pathlib import Path

import pytest

from tests.mutation_testing.__main__ import (
    NEEDED,
    ROOT,
    MutantChange,
    MutationPart,
    find_shortfalls,
    format_results,
    read_equivalents,
    read_parts,
    read_results,
    run_part,
)

STAKE = """
def stake(cash: float, cap: float) -> float:
    if cap < 0.0:
        raise ValueError(cap)
    return min(cash, cap) if cash > 0.0 else 0.0
"""
TESTS = """
from bot.stake import stake

def test_of_the_stake():
    assert stake(3.0, 2.0) == 2.0
    assert stake(-1.0, 2.0) == 0.0
"""


@pytest.mark.parametrize("part", read_parts(), ids=lambda part: part.name)
def test_every_pattern_names_modules_and_every_test_exists(part: MutationPart) -> None:
    assert [pattern for pattern in part.modules if not [*ROOT.glob(pattern)]] == []
    assert [test for test in part.tests if not (ROOT / test).exists()] == []


def test_every_accepted_change_is_of_a_line_that_is_there_and_has_a_reason() -> None:
    sources = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): " ".join(path.read_text().split())
        for part in read_parts()
        for pattern in part.modules
        for path in ROOT.glob(pattern)
    }
    gone = [
        change
        for change, reason in read_equivalents().items()
        if not reason.strip()
        or not any(change.was in text for name, text in sources.items() if change.function.startswith(f"{name}."))
    ]
    assert gone == []


@pytest.mark.timeout(120)
def test_survivors_are_counted_listed_and_accepted(tmp_path: Path) -> None:
    root = tmp_path / "project"
    for folder in ("bot", "plugins", "tests", "docs"):
        (root / folder).mkdir(parents=True)
    for name in NEEDED[:2]:
        (root / name).write_text("")
    (root / "pyproject.toml").write_text("[tool.pytest]\naddopts = ['--import-mode=importlib', '-p', 'no:foxcast']\n")
    (root / "bot" / "__init__.py").write_text("")
    (root / "bot" / "stake.py").write_text(STAKE)
    (root / "tests" / "test_stake.py").write_text(TESTS)
    part = MutationPart(
        name="stake", folder=tmp_path / "kept", modules=("bot/stake.py",), tests=("tests/test_stake.py",)
    )
    assert run_part(part, root=root)
    [result] = read_results(part, {})
    lines = "\n".join(format_results([result]))
    # By hand: each comparison can take in its bound and each number be one more, which these tests do not see.
    becomes = {change.becomes for change in result.alive}
    assert "if cap <= 0.0:" in becomes
    assert "return min(cash, cap) if cash >= 0.0 else 0.0" in becomes
    assert "return min(cash, cap) if cash > 0.0 else 1.0" not in becomes
    assert result.killed + len(result.alive) == result.mutants
    assert "bot.stake.stake\n  - if cap < 0.0:\n  + if cap <= 0.0:" in lines
    assert find_shortfalls([result])
    accepted = MutantChange("bot.stake.stake", "if cap < 0.0:", "if cap <= 0.0:")
    [other] = read_results(part, {accepted: "nobody sets a cap of nothing"})
    assert (other.equivalent, len(other.alive)) == (1, len(result.alive) - 1)
