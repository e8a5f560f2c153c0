"""Scenario files that are small and would grow, nest or repeat without end: each is refused by its line, at once."""

import sys

import pytest

from bot.core.errors import ConfigError
from plugins.society.scenario_files import MAX_FAULTS_SHOWN, parse_scenario, read_shipped_text
from plugins.society.variables import MAX_FILLED_CHARS, find_cycle, resolve_values

BASE = read_shipped_text("ten").rstrip() + "\n\n"
# The next line after that.
NEXT = BASE.count("\n") + 1


def told(text: str, name: str = "court.toml") -> list[str]:
    with pytest.raises(ConfigError) as raised:
        parse_scenario(text, name)
    return str(raised.value).split("\n")


def table(values: dict[str, str]) -> str:
    return "[values]\n" + "".join(f'{name} = "{text}"\n' for name, text in values.items())


def doubled(count: int, name: str = "a") -> dict[str, str]:
    return {f"{name}{number}": f"{{{name}{number + 1}}}" * 2 for number in range(count)} | {f"{name}{count}": "x"}


def test_values_that_double_are_refused_from_the_length_on_at_which_they_pass_what_may_be() -> None:
    # 2 ** 15 signs are fewer than may be, 2 ** 16 are more.
    assert (
        len(resolve_values(parse_scenario(BASE + table(doubled(15)), "court.toml").values)["a0"])
        == 2**15
        < MAX_FILLED_CHARS
    )
    [fault] = told(BASE + table(doubled(16)))
    assert fault == f"court.toml:{NEXT + 1}: values.a0: is longer than 40000 characters once the values are filled in"
    assert len(told(BASE + table(doubled(150)))) == MAX_FAULTS_SHOWN
    # A page of text at most, however long the keys are.
    long = told(BASE + table(doubled(150, "a" * 900)))
    assert len(long) == MAX_FAULTS_SHOWN
    assert sum(map(len, long)) < 10_000


def test_a_message_counts_with_its_values_filled_in() -> None:
    grown = BASE.replace('id = "', 'values = { long = "' + "x" * 9_000 + '" }\nid = "', 1)
    swollen = grown + '[[steps]]\naction = "message"\ninitiator = "user"\nreceiver = "head"\nmessage = "'
    assert any(".message: is longer than 40000" in fault for fault in told(swollen + "{long}" * 5 + '"\n'))
    assert not any("is longer than" in fault for fault in told(swollen + "{long}" * 4 + '{nobody}"\n'))


def test_long_chains_and_circles_of_values_need_no_deep_stack() -> None:
    count = 3 * sys.getrecursionlimit()
    chain = {f"a{number}": f"<{{a{number + 1}}}" for number in range(count)}
    assert resolve_values(chain | {f"a{count}": "x"})["a0"] == "<" * count + "x"
    assert find_cycle(chain | {f"a{count}": "x"}) == ()
    assert find_cycle(chain | {f"a{count}": "{a0}"}) == (*chain, f"a{count}", "a0")


def test_a_circle_is_told_from_its_first_value_on_and_without_what_leads_to_it() -> None:
    assert find_cycle({"x": "{b}", "a": "{c} {y}", "b": "{a}", "c": "{b}", "y": "x"}) == ("a", "c", "b", "a")
    assert find_cycle({"a": "{a}"}) == ("a", "a")


def test_there_are_at_most_two_hundred_values() -> None:
    [fault] = told(BASE + table({f"a{number}": "x" for number in range(201)}))
    assert fault.startswith(f"court.toml:{NEXT}: values: ")
    assert "at most 200" in fault


@pytest.mark.parametrize(
    "deep",
    [
        ".".join(["a"] * 20_000) + " = 1",
        "[" + ".".join(["a"] * 20_000) + "]",
        "x = { " + " . ".join(["'a'"] * 5_000) + " = 1 }",
    ],
)
def test_a_key_of_very_many_parts_is_refused_by_its_line(deep: str) -> None:
    assert told(f"{BASE}# a.b.c\n{deep}\n") == [f"court.toml:{NEXT + 1}: a key has more than 30 parts"]


def test_dots_in_texts_comments_and_numbers_are_no_parts_of_keys() -> None:
    dots = "." * 99
    text = f'# {dots}\nx = ["{dots}", 1.5, 2.5]\ny = """\n{dots}"""\nz = {chr(39)}{dots}{chr(39)}\n'
    assert "court.toml:2: x: there is no such key" in "\n".join(told(text))


def test_tables_within_tables_are_refused_by_their_line_however_deep() -> None:
    deep = "x = " + "{a.b.c.d.e.f.g.h=" * 250 + "1" + "}" * 250
    assert told(f"{BASE}[values]\n{deep}\n") == [f"court.toml:{NEXT + 1}: values.x: should be text"]
    assert (
        told('{"values":' + '{"a":' * 900 + "1" + "}" * 901, "court.json")[0]
        == "court.json:1: values.a: should be text"
    )
