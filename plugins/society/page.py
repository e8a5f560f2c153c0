"""What was said in court as a page of HTML of its own, to be read in any browser: no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

from plugins.society.minutes import Entry, closing, entries, figure, rows, seen, source, told

Found = Mapping[str, Any]

# Kinds of questions whose answers are chances, and not points of a scale.
_OF_CHANCES = frozenset({"binary", "choice"})

# So many who are asked have a colour of their own.
_COLOURS = ("#3b6ea5", "#b0413e", "#4f8a4b", "#8a5fa8", "#c07d2b", "#2f8f8f", "#7a7a52", "#a0527a")
_STYLE = (
    ":root{color-scheme:light dark;--ink:#222;--soft:#556;--line:#ccc;--paper:#fdfcf9;--warn:#a33}"
    "@media(prefers-color-scheme:dark){:root{--ink:#ddd;--soft:#9ab;--line:#444;--paper:#191a1c;--warn:#e88}}"
    "body{font-family:Georgia,serif;max-width:46rem;margin:2rem auto;padding:0 1rem;line-height:1.5;"
    "color:var(--ink);background:var(--paper);overflow-wrap:anywhere}"
    "h1{font-size:1.6rem;line-height:1.25}h2{border-bottom:1px solid var(--line)}h3{font-size:1.05rem;margin:.4rem 0}"
    "article{border-left:4px solid var(--line);padding:.1rem 1rem;margin:1rem 0}p{white-space:pre-wrap;margin:.4rem 0}"
    ".source,.belief{color:var(--soft);font-size:.9rem}.answer{font-size:1.2rem}.remark{color:var(--warn);font-size:.9rem}"
    "meter{width:12rem;height:.8rem;vertical-align:middle}table{border-collapse:collapse;margin:1rem 0}"
    "td,th{border:1px solid var(--line);padding:.2rem .6rem;text-align:left}td:last-child{border:0}"
    ".number{text-align:right;font-variant-numeric:tabular-nums}"
    "@media print{body{max-width:none}article{break-inside:avoid-page}}"
) + "".join(f".voice{number}{{border-color:{colour}}}" for number, colour in enumerate(_COLOURS))


def page(found: Found) -> str:
    """Return all trials of a forecast. Every word is put in as text: nothing said becomes markup."""
    html = ET.Element("html", lang="en")
    head, body = ET.SubElement(html, "head"), ET.SubElement(html, "body")
    ET.SubElement(head, "meta", charset="utf-8")
    ET.SubElement(head, "meta", name="viewport", content="width=device-width")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    ET.SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": policy})
    _add(head, "title", found["question"]["title"])
    _add(head, "style", _STYLE)
    _opening(body, found)
    voices: dict[str, int] = {}
    for trial in found["trials"]:
        _add(body, "h2", f"Trial {trial['number']}")
        for entry in entries(trial):
            _entry(body, entry, voices)
        _table(body, closing(trial), has_chances=found["question"].get("shape", {}).get("kind") in _OF_CHANCES)
    return f"<!doctype html>\n{ET.tostring(html, encoding='unicode', method='html')}\n"


def _opening(body: ET.Element, found: Found) -> None:
    question, forecast = found["question"], found.get("forecast") or {}
    _add(body, "h1", question["title"])
    answers = list(told(forecast.get("predictions", {})))
    if answers:
        crowd = (question.get("crowd") or {}).get("prediction", {}).get("probability") if len(answers) == 1 else None
        beside = "" if crowd is None else f", the crowd {100 * crowd:.1f} %"
        _add(body, "p", f"{forecast['forecaster']} says {'; '.join(answers)}{beside}", "answer")
    _add(body, "p", source(found), "source")
    if question.get("criteria"):
        _add(body, "p", question["criteria"])


def _entry(body: ET.Element, entry: Entry, voices: dict[str, int]) -> None:
    asked = entry.arguments.get("to") or entry.arguments.get("agent")
    article = ET.SubElement(body, "article")
    if asked:
        article.set("class", f"voice{voices.setdefault(str(asked), len(voices)) % len(_COLOURS)}")
    _add(article, "h3", entry.title)
    for remark in entry.remarks:
        _add(article, "p", remark, "remark")
    _add(article, "p", entry.text)
    if entry.belief:
        _bar(_add(article, "p", f"believed: {entry.belief} ", "belief"), entry.chance)


def _table(body: ET.Element, tally: Found, *, has_chances: bool) -> None:
    """Put in the numbers of a count, each chance with a bar; of a count that never came there is no table."""
    if not rows(tally):
        return
    table = ET.SubElement(body, "table")
    for name, value in rows(tally).items():
        row = ET.SubElement(table, "tr")
        _add(row, "th", name)
        _add(row, "td", figure(value), "number")
        _bar(ET.SubElement(row, "td"), value if has_chances and not name.startswith("spread") else None)


def _bar(parent: ET.Element, chance: float | str | None) -> None:
    if isinstance(chance, float):
        ET.SubElement(parent, "meter", min="0", max="1", value=f"{chance:.4f}")


def _add(parent: ET.Element, tag: str, text: str, kind: str = "") -> ET.Element:
    element = ET.SubElement(parent, tag, {"class": kind} if kind else {})
    element.text = seen(text)
    return element
