"""Pages in the manner of those that questions are about; what a reader of the page sees is written down by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.data.wikipedia.sections import parse_article
from plugins.data.wikipedia.wikitext import wikitext_to_text

RANKINGS = """{{Short description|Chess rankings}}
{{Use dmy dates|date=March 2026}}
[[File:Board.jpg|thumb|A [[chessboard|board]] with {{nowrap|64 squares}}]]
'''Rankings''' of [[FIDE|the federation]].<ref name="a">{{cite web|title=X|url=https://x.example/?a=b}}</ref> See
[https://ratings.example the list].<!--
== hidden ==
-->
== Top players ==
=== Open ===
{| class="wikitable sortable" style="text-align:center"
|+ Top three as of March 2026{{efn|note}}
! scope="col" | Rank !! Prev !! Player !! Rating !! Change
|-
| 1
| {{Steady}}
| align=left |{{flagathlete|[[Ada Berg]]|NOR}}
| 2839 || {{nochange}}
|-
| rowspan="2" | 2 || {{increase|1}} || align="left" | {{flagicon|USA}} [[Carl Dorn]]{{efn|tied}} || 2810 || +3
|-
| {{decrease}} || {{sortname|Eva|Falk}} || 2,810<br />(live 2812) || -2
|}
"""
RECORDS = """==Long course (50 m)==
===Men===
{{Swimming record heading}}
{{Swimming record
| event = {{nowrap|50 m freestyle}}
| eventsort = 01
| time = 20.91
| name = [[Ada Berg]]
| nationality = {{BRA}}
| date = {{dts|2009|12|18}}
| ref = {{cite web|title=y}}
}}
{{Swimming record|event=100 m freestyle|time=46.40|name=[[Carl Dorn]]}}
|}
===Women===
{| class=wikitable
!Event
!Time
|-
|50 m
|23.61
|}
==Short course (25 m)==
===Men===
None.
===Women===
None either.
"""
DISEASES = """== List ==
{| class="wikitable sortable"
! rowspan=2 | Common name !! colspan=2 | About
|-
! Agent !! Vaccine(s)
|-
| [[Anthrax]]<ref>x</ref> || ''[[Bacillus anthracis]]'' || {{Yes}}
|-
| [[Zika fever|Zika]]
| Zika&nbsp;virus
| {{No|Under research}}<ref name=b/>
|-
| Three<br>lines
of text
| nowrap | x
| {{n/a}}
|}
"""


def _lines(*lines: str) -> str:
    return "\n".join(lines)


def test_a_table_of_ranks_reads_as_it_looks() -> None:
    assert parse_article(RANKINGS).section_text("Open") == _lines(
        "Top three as of March 2026",
        "| Rank | Prev | Player | Rating | Change |",
        "| 1 | Steady | Ada Berg NOR | 2839 | nochange |",
        "| 2 | increase 1 | USA Carl Dorn | 2810 | +3 |",
        "| 2 | decrease | Eva Falk | 2,810 / (live 2812) | -2 |",
    )


def test_what_no_reader_sees_is_left_out() -> None:
    found = parse_article(RANKINGS)
    assert found.headings == ("Top players", "Open")
    assert found.section_text("") == "Rankings of the federation. See\nthe list."


def test_rows_made_by_templates_keep_their_values() -> None:
    text = parse_article(RECORDS).section_text("Long course (50 m) > Men")
    assert text is not None
    assert [line for line in text.splitlines() if line] == [
        "[Swimming record heading]",
        "- event: 50 m freestyle; time: 20.91; name: Ada Berg; nationality: [BRA]; date: 2009-12-18",
        "- event: 100 m freestyle; time: 46.40; name: Carl Dorn",
    ]


def test_rows_made_by_templates_inside_a_table_stand_alone() -> None:
    rows = "{{row|event=50 m|time=20.91|name=Ada}}\n{{row|event=100 m|time=46.40|name=Carl}}"
    text = f"{{| class=wikitable\n! Event\n|-\n{rows}\n|}}"
    assert wikitext_to_text(text).splitlines() == [
        "| Event |",
        "| - event: 50 m; time: 20.91; name: Ada |",
        "| - event: 100 m; time: 46.40; name: Carl |",
    ]


def test_headings_that_come_twice_are_told_apart_by_the_one_above() -> None:
    found = parse_article(RECORDS)
    assert found.headings == (
        "Long course (50 m)",
        "Long course (50 m) > Men",
        "Long course (50 m) > Women",
        "Short course (25 m)",
        "Short course (25 m) > Men",
        "Short course (25 m) > Women",
    )
    assert found.section_text("Short course (25 m) > Women") == "None either."
    assert found.section_text("Women") == "| Event | Time |\n| 50 m | 23.61 |"
    assert found.section_text("Short course (25 m)") == "===Men===\nNone.\n===Women===\nNone either."


def test_headings_stay_apart_whatever_they_are() -> None:
    found = parse_article("== A ==\n1\n== A (2) ==\n2\n== A ==\n3\n== A ==\n4\n")
    assert found.headings == ("A", "A (2)", "A (3)", "A (4)")
    assert [found.section_text(heading) for heading in found.headings] == ["1", "2", "3", "4"]


def test_cells_that_span_are_repeated_down_and_said_once_across() -> None:
    assert parse_article(DISEASES).section_text("List") == _lines(
        "| Common name | About | |",
        "| Common name | Agent | Vaccine(s) |",
        "| Anthrax | Bacillus anthracis | Yes |",
        "| Zika | Zika virus | Under research |",
        "| Three / lines of text | x | n/a |",
    )


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("a [[b|c]] [[d]] [[:Category:E]] [[Category:F]]x", "a c d Category:E x"),
        ("'''bold''' and ''slanted''", "bold and slanted"),
        ("x &lt; y &amp; z<sup>2</sup>", "x < y & z2"),
        ("{{nowrap|{{abbr|WR|world record}}}}", "world record"),
        ("{{sort|001|first}}", "first"),
        ("{{Top list}} {{:Another page}}", "[Top list] [:Another page]"),
        ("{{#invoke:Chart|x}}{{{1|default}}}", "default"),
        ("{{val|5|u=km}}", "5; u: km"),
        ("{{lang|1=fr|2=mot}}", "fr mot"),
        ("[http://a.example/?b=c label] [http://a.example]", "label"),
        ("unclosed {{template and [[link", "unclosed {{template and [[link"),
        ("<ref>gone</ref>kept<ref name=x />", "kept"),
        ("* one\n** two\n\n\n\n# three", "* one\n** two\n\n# three"),
        ("{|\n| a\n{|\n| inner || cell\n|}\n| b\n|}", "| a | inner | cell | | b |"),
    ],
)
def test_markup_is_written_out(source: str, shown: str) -> None:
    assert wikitext_to_text(source) == shown


PIECES = st.sampled_from(
    (
        *("{{", "}}", "{|", "|}", "|-", "|", "||", "!", "!!", "[[", "]]", "=", "==", "\n", "<ref>", "</ref>", "<!--"),
        *("-->", " ", "a", "rowspan=2 |", "colspan=3 |", "'''", "{{{", "}}}", "&amp;", "\x01", "\N{LINE SEPARATOR}"),
    )
)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_any_markup_is_read_and_every_listed_heading_leads_to_its_section(text: str) -> None:
    found = parse_article(text)
    assert len(set(found.headings)) == len(found.headings)
    for heading in found.headings:
        assert found.section_text(heading) is not None
