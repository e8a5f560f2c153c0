"""Transcripts of forecasts as one page of HTML, to be read in any browser: no script, nothing from elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from bot.cli.output.predictions import describe_prediction
from bot.core.forecasts import TranscriptEntry, TranscriptFigure, TrialTranscript
from bot.core.plain_text import replace_invisible
from bot.core.predictions import BinaryPrediction
from bot.store.forecasts import ForecastTrace

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastTranscript:
    """One forecast on record, and what was done in each of its trials, by number."""

    trace: ForecastTrace
    trials: Mapping[int, TrialTranscript]


def forecast_source(trace: ForecastTrace) -> str:
    """Return which forecast it is, by whom and of when."""
    forecast = trace.forecast
    by = f" by {forecast.forecaster}, {forecast.made_at.isoformat()}" if forecast else f", {trace.state}"
    return f"forecast {trace.id}{by}"


def render_page(forecasts: Sequence[ForecastTranscript], *, full: bool = False) -> str:
    """Return all trials of these forecasts. Every word is put in as text: nothing said becomes markup."""
    html = ET.Element("html", lang="en")
    head, body = ET.SubElement(html, "head"), ET.SubElement(html, "body")
    ET.SubElement(head, "meta", charset="utf-8")
    ET.SubElement(head, "meta", name="viewport", content="width=device-width")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    ET.SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": policy})
    _add_element(head, "title", ", ".join(dict.fromkeys(found.trace.question.title for found in forecasts)))
    _add_element(head, "style", _STYLE)
    for found in forecasts:
        _add_forecast(body, found, full=full)
    return f"<!doctype html>\n{ET.tostring(html, encoding='unicode', method='html')}\n"


def _add_forecast(body: ET.Element, found: ForecastTranscript, *, full: bool) -> None:
    _add_heading(body, found.trace)
    voices: dict[str, int] = {}
    for number, trial in found.trials.items():
        _add_element(body, "h2", f"Trial {number}")
        for entry in trial.entries:
            _add_entry(body, entry, voices, full=full)
        _add_table(body, trial.figures)
        if trial.report:
            _add_element(body, "p", trial.report)


def _add_heading(body: ET.Element, trace: ForecastTrace) -> None:
    question, forecast = trace.question, trace.forecast
    _add_element(body, "h1", question.title)
    if forecast:
        answers = [f"{key} {describe_prediction(said, question.shape)}" for key, said in forecast.predictions.items()]
        crowd = question.crowd.prediction if question.crowd and len(answers) == 1 else None
        others = f", the crowd {100 * crowd.probability:.1f} %" if isinstance(crowd, BinaryPrediction) else ""
        _add_element(body, "p", f"{forecast.forecaster} says {'; '.join(answers)}{others}", "answer")
    _add_element(body, "p", forecast_source(trace), "source")
    if question.criteria:
        _add_element(body, "p", question.criteria)


def _add_entry(body: ET.Element, entry: TranscriptEntry, voices: dict[str, int], *, full: bool) -> None:
    article = ET.SubElement(body, "article")
    if entry.speaker:
        article.set("class", f"voice{voices.setdefault(entry.speaker, len(voices)) % len(_COLOURS)}")
    _add_element(article, "h3", entry.title)
    for remark in entry.remarks:
        _add_element(article, "p", remark, "remark")
    for text in filter(None, (entry.text, entry.detail if full else "")):
        _add_element(article, "p", text)
    if entry.belief:
        _add_bar(_add_element(article, "p", f"believed: {entry.belief} ", "belief"), entry.probability)


def _add_table(body: ET.Element, figures: Sequence[TranscriptFigure]) -> None:
    """Put in the figures, each probability with a bar; without any there is no table."""
    if not figures:
        return
    table = ET.SubElement(body, "table")
    for figure in figures:
        row = ET.SubElement(table, "tr")
        _add_element(row, "th", figure.name)
        _add_element(row, "td", figure.text, "number")
        is_bar = figure.is_probability and isinstance(figure.value, float)
        _add_bar(ET.SubElement(row, "td"), float(figure.value) if is_bar else None)


def _add_bar(parent: ET.Element, probability: float | None) -> None:
    if probability is not None:
        ET.SubElement(parent, "meter", min="0", max="1", value=f"{probability:.4f}")


def _add_element(parent: ET.Element, tag: str, text: str, kind: str = "") -> ET.Element:
    element = ET.SubElement(parent, tag, {"class": kind} if kind else {})
    element.text = replace_invisible(text)
    return element
