"""Until when a model was trained: config before what its maker published, and nothing guessed for any other model."""

from datetime import date
from importlib import resources

import pytest

from bot.config.schema import LlmSection
from bot.evaluation.knowledge_cutoffs import canonical_model_name, knowledge_cutoff, published_cutoff, shipped_cutoffs

NOTHING = LlmSection()
PUBLISHED = {
    canonical_model_name(name): date.fromisoformat(day)
    for name, day in {
        "opal-4": "2023-12-01",
        "opal-4-turbo": "2024-06-01",
        "opal-4.1": "2024-09-30",
        "opal-4.1-mini": "2024-05-31",
        "flint3": "2024-08-31",
    }.items()
}


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("opal-4", "2023-12-01"),
        ("opal-4-0613", "2023-12-01"),
        ("opal-4-1106-preview", "2023-12-01"),
        ("opal-4-turbo-2024-04-09", "2024-06-01"),
        ("opal-4.1", "2024-09-30"),
        ("maker/OPAL-4-1:free", "2024-09-30"),
        ("router/maker/opal-4.1-mini-2025-04-14", "2024-05-31"),
        ("cloud/us.maker.opal-4-1-20250929-v1:0", "2024-09-30"),
        ("cloud/opal-4-1@20250514", "2024-09-30"),
        ("opal-4.1-preview-05-06", "2024-09-30"),
        ("flint3:27b-instruct-q4_K_M", "2024-08-31"),
        ("flint-3-8b-it", "2024-08-31"),
    ],
)
def test_a_name_stands_for_its_versions_sizes_and_spellings(name: str, day: str) -> None:
    assert published_cutoff(name, PUBLISHED) == date.fromisoformat(day)


@pytest.mark.parametrize(
    "name",
    [
        "opal-4.2",
        "opal-4o",
        "opal-4-fast",
        "opal-40",
        "opal-4.1-pro",
        "opal",
        "flint-3n",
        "chatopal-4",
        "local/small",
        "",
    ],
)
def test_another_model_of_the_family_is_not_guessed(name: str) -> None:
    assert published_cutoff(name, PUBLISHED) is None


def test_config_counts_before_what_is_shipped_and_other_models_are_unknown() -> None:
    shipped = "litellm:gemini/gemini-3.1-pro-preview"
    assert knowledge_cutoff(shipped, NOTHING) == date(2025, 1, 31)
    section = LlmSection.model_validate(
        {"models": {shipped: {"knowledge_cutoff": "2025-08-01"}, "local:small": {"free": True}}}
    )
    assert knowledge_cutoff(shipped, section) == date(2025, 8, 1)
    assert knowledge_cutoff("local:small", section) is None


def test_every_line_that_is_shipped_is_read_and_each_name_stands_once() -> None:
    text = resources.files("plugins").joinpath("knowledge_cutoffs.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(shipped_cutoffs()) == len(lines) > 40
    assert all(date(2021, 1, 1) < day < date(2026, 11, 1) for day in shipped_cutoffs().values())
    assert lines == sorted(lines)
