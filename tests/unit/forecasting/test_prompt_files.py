"""Prompt files of a user replace the shipped ones, and are checked before anything is asked with them."""

import re
from pathlib import Path

import pytest

from bot.forecasting.prompt_files import check_prompt_folder, fill_prompt, join_prompt_sources, load_template

PACKAGE = "plugins.blf"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_of_the_folder_replaces_the_shipped_one_and_the_others_stay(tmp_path: Path) -> None:
    write(tmp_path, "short.txt", "Answer. $task $bounds\n")
    assert check_prompt_folder(PACKAGE, tmp_path) == tmp_path
    assert load_template(PACKAGE, "short", tmp_path).template == "Answer. $task $bounds"
    assert fill_prompt(PACKAGE, "short", folder=tmp_path, task="Yes or no?", bounds="") == "Answer. Yes or no? "
    assert load_template(PACKAGE, "loop", tmp_path).template == load_template(PACKAGE, "loop").template
    assert load_template(PACKAGE, "short").template != load_template(PACKAGE, "short", tmp_path).template


def test_shared_prompts_can_be_replaced_and_are_part_of_the_version(tmp_path: Path) -> None:
    write(tmp_path, "repair.txt", "No: $why. Call one of $tools.")
    check_prompt_folder(PACKAGE, tmp_path)
    assert "No: $why." in join_prompt_sources(PACKAGE, "loop", folder=tmp_path)
    assert "No: $why." not in join_prompt_sources(PACKAGE, "loop")
    assert join_prompt_sources(PACKAGE, "loop", shared=("judge_binary",)).count("How to judge") == 1


def test_a_folder_inside_and_hidden_files_are_looked_at_and_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "kinds/scout.txt", load_template("plugins.orchestra", "kinds/scout").template)
    write(tmp_path, ".git/config", "anything")
    write(tmp_path, ".loop.txt.swp", "anything")
    assert check_prompt_folder("plugins.orchestra", tmp_path) == tmp_path


def test_dollars_are_written_twice(tmp_path: Path) -> None:
    write(tmp_path, "short.txt", "$task $bounds It costs $$5.")
    check_prompt_folder(PACKAGE, tmp_path)
    assert fill_prompt(PACKAGE, "short", folder=tmp_path, task="a", bounds="b") == "a b It costs $5."


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("lop.txt", "$task", "lop.txt: there is no prompt of that name; did you mean loop.txt?"),
        ("readme.md", "hello", "readme.md: there is no prompt of that name; valid: batch.txt"),
        ("short.txt", "Answer. $task", "short.txt: the placeholder $bounds is missing; it needs $bounds, $task"),
        ("short.txt", "$task $bounds $beleif", "short.txt: unknown placeholder $beleif; allowed: $bounds, $task"),
        ("short.txt", "$task $bounds for 5 $", "short.txt has a $ that begins no placeholder"),
        ("judge_date.txt", "$task", "judge_date.txt: unknown placeholder $task; allowed: none"),
        ("turn.txt", "Step $number", "turn.txt: the placeholder $last is missing"),
    ],
)
def test_a_file_that_cannot_replace_is_named_with_what_is_wrong(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    write(tmp_path, name, text)
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path}/{told}")):
        check_prompt_folder(PACKAGE, tmp_path)


def test_a_file_that_is_no_text_and_a_folder_that_is_not_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_bytes(b"\xff\xfe$task")
    with pytest.raises(ValueError, match=r"short\.txt cannot be read as UTF-8 text"):
        check_prompt_folder(PACKAGE, tmp_path)
    with pytest.raises(ValueError, match="not a folder"):
        check_prompt_folder(PACKAGE, tmp_path / "elsewhere")
