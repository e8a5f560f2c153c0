"""Prompt files of a user replace the shipped ones, and are checked before anything is asked with them."""

import re
from pathlib import Path

import pytest

from bot.agent.prompt_files import checked_prompts, filled, template, unfilled

PACKAGE = "plugins.blf"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_of_the_folder_replaces_the_shipped_one_and_the_others_stay(tmp_path: Path) -> None:
    write(tmp_path, "short.txt", "Answer. $task $bounds\n")
    assert checked_prompts(PACKAGE, tmp_path) == tmp_path
    assert template(PACKAGE, "short", tmp_path).template == "Answer. $task $bounds"
    assert filled(PACKAGE, "short", folder=tmp_path, task="Yes or no?", bounds="") == "Answer. Yes or no? "
    assert template(PACKAGE, "loop", tmp_path).template == template(PACKAGE, "loop").template
    assert template(PACKAGE, "short").template != template(PACKAGE, "short", tmp_path).template


def test_shared_prompts_can_be_replaced_and_are_part_of_the_version(tmp_path: Path) -> None:
    write(tmp_path, "repair.txt", "No: $why. Call one of $tools.")
    checked_prompts(PACKAGE, tmp_path)
    assert "No: $why." in unfilled(PACKAGE, "loop", folder=tmp_path)
    assert "No: $why." not in unfilled(PACKAGE, "loop")
    assert unfilled(PACKAGE, "loop", shared=("judge_binary",)).count("How to judge") == 1


def test_a_folder_inside_and_hidden_files_are_looked_at_and_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "kinds/scout.txt", template("plugins.orchestra", "kinds/scout").template)
    write(tmp_path, ".git/config", "anything")
    write(tmp_path, ".loop.txt.swp", "anything")
    assert checked_prompts("plugins.orchestra", tmp_path) == tmp_path


def test_dollars_are_written_twice(tmp_path: Path) -> None:
    write(tmp_path, "short.txt", "$task $bounds It costs $$5.")
    checked_prompts(PACKAGE, tmp_path)
    assert filled(PACKAGE, "short", folder=tmp_path, task="a", bounds="b") == "a b It costs $5."


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("lop.txt", "$task", "lop.txt: there is no prompt of that name; did you mean loop.txt?"),
        ("readme.md", "hello", "readme.md: there is no prompt of that name; valid: batch.txt"),
        ("short.txt", "Answer. $task", "short.txt: the placeholder $bounds is missing; it needs $bounds, $task"),
        ("short.txt", "$task $bounds $beleif", "short.txt: there is no placeholder $beleif; it takes $bounds, $task"),
        ("short.txt", "$task $bounds for 5 $", "short.txt has a $ that begins no placeholder"),
        ("judge_date.txt", "$task", "judge_date.txt: there is no placeholder $task; it takes none"),
        ("turn.txt", "Step $number", "turn.txt: the placeholder $last is missing"),
    ],
)
def test_a_file_that_cannot_replace_is_named_with_what_is_wrong(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    write(tmp_path, name, text)
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path}/{told}")):
        checked_prompts(PACKAGE, tmp_path)


def test_a_file_that_is_no_text_and_a_folder_that_is_not_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_bytes(b"\xff\xfe$task")
    with pytest.raises(ValueError, match=r"short\.txt cannot be read as UTF-8 text"):
        checked_prompts(PACKAGE, tmp_path)
    with pytest.raises(ValueError, match="no folder"):
        checked_prompts(PACKAGE, tmp_path / "elsewhere")
