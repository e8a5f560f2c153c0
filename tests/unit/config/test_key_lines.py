"""The line of each key of TOML and JSON, as the parsers of the library read them."""

import json
import tomllib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.config.key_lines import find_line, map_json_lines, map_toml_lines

# Brackets, quotes and signs of comments where they mean nothing.
ODD = (
    """a = \'\'\'x [ { " # \'\'\'\'\' # c [""",
    """b = 'it "[' # {""",
    '"q.[" = [1, # ] c',
    ' "]", {x = "}"}, """',
    r' ]] \"" "",',
    ' """]',
    '[a2."b.]".c]',
    "z.y = { w = 1, v = [ {u=2} ] }",
    "[[t]]",
    'x = """',
    'a"""',
    'y = ""',
    "z = ''",
)


KEYS = st.text("abcxyz_", min_size=1, max_size=6)
TREES: Any = st.recursive(
    st.integers() | st.text('ab"\\\n{},:[]', max_size=8),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=8,
)


def keys(tree: Any, under: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the key of every part of a tree, in the order in which JSON writes them."""
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [key for name, part in parts for key in ((*under, name), *keys(part, (*under, name)))]


@settings(max_examples=40)
@given(tree=st.dictionaries(KEYS, TREES, min_size=1, max_size=3))
def test_json_written_one_part_a_line_has_each_part_on_its_line(tree: dict[str, Any]) -> None:
    lines = map_json_lines(json.dumps(tree, indent=1))
    written = json.dumps(tree, indent=1).split("\n")
    assert set(lines) == set(keys(tree))
    for key, line in lines.items():
        if isinstance(key[-1], str):
            assert written[line - 1].lstrip().startswith(json.dumps(key[-1]))
    # Parts stand in the order of the text, each on a line of its own.
    assert sorted(lines.values()) == [lines[key] for key in keys(tree)]
    assert len(set(lines.values())) == len(lines)


def test_toml_has_each_key_on_its_line_also_after_texts_of_several_lines() -> None:
    text = 'a = """\n[[b]]\nx = 1\n"""\n[[b]]\nx = { y = 1 }\n[b.c]\nz = 2\n[[b]]\nx = 3\n'
    lines = map_toml_lines(text)
    assert {key: lines[key] for key in [("a",), ("b", 0), ("b", 0, "x", "y"), ("b", 0, "c", "z"), ("b", 1, "x")]} == {
        ("a",): 1,
        ("b", 0): 5,
        ("b", 0, "x", "y"): 6,
        ("b", 0, "c", "z"): 8,
        ("b", 1, "x"): 10,
    }
    assert find_line(("b", 1, "w"), lines) == 9
    assert find_line(("w",), lines) is None


def test_a_list_of_very_many_lines_is_read_once() -> None:
    # Read anew with each of its lines, this would take minutes.
    found = map_toml_lines("x = [\n" + "1,\n" * 20_000 + "]\n[y]\nz = 1\n")
    assert found == {("x",): 1, ("y",): 20_003, ("y", "z"): 20_004}


def test_statements_end_where_the_parser_of_the_library_ends_them() -> None:
    odd = "\n".join(ODD)
    assert tomllib.loads(odd)["t"] == [{"x": "a", "y": "", "z": ""}]
    assert {key: line for key, line in map_toml_lines(odd).items() if len(key) == 1} == {
        ("a",): 1,
        ("b",): 2,
        ("q.[",): 3,
        ("a2",): 7,
        ("t",): 9,
    }
    assert [map_toml_lines(odd)["t", 0, key] for key in "xyz"] == [10, 12, 13]
