"""Code cites pages of this repository or of the web: no comment points to a document that a reader does not have."""

import re

import pytest

from tests.architecture.pages import cited_sections, comments_and_docstrings, load_pages
from tests.architecture.source import ROOT

FOLDERS = ("bot", "plugins", "tests")
# Ways in which documents outside the repository were cited.
OUTSIDE = re.compile(
    r"\bshared/|\b(?:DESIGN|STYLE|HOUSE)\b(?:\.md|,? section)|venue(?:'s)? document\b|ForecastBench document\b"
    r"|reliability (?:study|programme|reference)|reference on reliability|\bseed 00\d"
    r"|\b(?:MF|MC|PM|KX|K)-[A-Z]+\d|(?<!docs/facts/)\b(?:venues|reference)/[\w-]+\.md",
    re.IGNORECASE,
)
PAGES = {page.name: page for page in load_pages(ROOT)}
SOURCES = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.name not in {"test_citations.py", "test_documents.py", "pages.py"}
]


def outside_citations(source: str) -> list[str]:
    """Return the citations of documents outside the repository in comments and docstrings."""
    if not OUTSIDE.search(source):
        return []
    return [found[0] for text in comments_and_docstrings(source) for found in OUTSIDE.finditer(text)]


def test_no_comment_cites_a_document_outside_the_repository() -> None:
    found = {path.relative_to(ROOT).as_posix(): outside_citations(path.read_text("utf-8")) for path in SOURCES}
    assert {name: cited for name, cited in found.items() if cited} == {}


def test_every_cited_page_exists_with_its_sections() -> None:
    cited = {
        (path.relative_to(ROOT).as_posix(), page, anchor)
        for path in SOURCES
        for page, anchor in cited_sections(path.read_text("utf-8"))
    }
    assert len(cited) > 100
    assert [one for one in sorted(cited) if one[1] not in PAGES] == []
    assert [one for one in sorted(cited) if one[2] and one[2] not in PAGES[one[1]].anchors] == []


@pytest.mark.parametrize(
    "comment",
    [
        "Source: venue document, section 4.4.",
        "as the venue's document says",
        "DESIGN, section 7",
        "see shared/venues/manifold.md",
        "the reliability study, section 3.5",
        "MF-X3: nothing is sent",
        "the third agent (seed 001)",
        "see reference/llm.md",
    ],
)
def test_a_citation_of_a_document_outside_is_found(comment: str) -> None:
    assert len(outside_citations(f"# {comment}\n")) >= 1
    assert len(outside_citations(f'"""{comment}"""\n')) >= 1
    assert outside_citations(f"text = '{comment.replace(chr(39), '')}'\n") == []


@pytest.mark.parametrize("comment", ["Source: RFC 9110, section 15.", "docs/facts/manifold.md#bets", "by its design"])
def test_a_public_document_or_a_page_of_ours_may_be_cited(comment: str) -> None:
    assert outside_citations(f"# {comment}\n") == []


def test_citations_name_several_sections_over_several_lines() -> None:
    text = "Source: docs/facts/manifold.md#bets, #account\n    and #sizing; docs/models.md says more."
    page = "docs/facts/manifold.md"
    assert [*cited_sections(text)] == [(page, "bets"), (page, "account"), (page, "sizing"), ("docs/models.md", "")]
