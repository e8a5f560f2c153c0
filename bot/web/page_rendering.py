"""Pages as HTML: the templates with their filters, and the headers of every answer.

Each text that a template shows is made visible (no direction marks, no hidden letters), loses known secrets, and is
escaped; only markup of our own charts is not. The content security policy allows nothing but our own files, no script
or style within a page, and no frame around it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from bot.core.plain_text import replace_invisible
from bot.core.redaction import redact_known_secrets
from bot.evaluation.value_text import (
    NO_VALUE,
    describe_outcome,
    describe_prediction_short,
    format_bytes,
    format_number,
    format_percent,
    format_usd,
    truncate_text,
)

TEMPLATE_FOLDER = Path(__file__).parent / "templates"
_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
CONTENT_SECURITY_POLICY = "; ".join(f"{name} {source}" for name, source in _POLICY.items())
PAGE_HEADERS: Mapping[str, str] = {
    "cache-control": "no-store",
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def render_template(template: str, values: Mapping[str, Any], *, status: int = 200) -> Response:
    """Return a template of the package as an answer."""
    return HTMLResponse(_template_environment().get_template(template).render(values), status, dict(PAGE_HEADERS))


@cache
def _template_environment() -> Environment:
    """The templates with their filters, each compiled once in a process: that takes longer than many pages."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean_value,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "percent": format_percent,
        "number": format_number,
        "signed": format_signed,
        "usd": format_usd,
        "size": format_bytes,
        "minute": mark_time,
        "until": describe_distance,
        "outcome": describe_outcome,
        "prediction": describe_prediction_short,
        "shorten": truncate_text,
        "weblink": web_link,
    }
    environment.globals |= {"question_link": question_link, "page_link": page_link}
    return environment


def _clean_value(value: object) -> object:
    """Return what a template shows: markup of our own as it is, None as a dash, text without anything hidden."""
    if value is None:
        return NO_VALUE
    if isinstance(value, Markup):
        return value
    return replace_invisible(redact_known_secrets(value)) if isinstance(value, str) else value


def format_signed(value: float | None, digits: int = 2) -> str:
    """Return a number with its sign."""
    return NO_VALUE if value is None else f"{value:+,.{digits}f}"


def mark_time(at: datetime | None) -> str | Markup:
    """Return a time to the minute in UTC as an element that programs can read."""
    if at is None:
        return NO_VALUE
    in_utc = at.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(f"{in_utc:%Y-%m-%dT%H:%M:%SZ}", f"{in_utc:%Y-%m-%d %H:%M}")


def describe_distance(at: datetime | None, now: datetime) -> str:
    """Return how far a time is from now, in its largest unit: "in 3 h" or "5 min ago"."""
    if at is None:
        return NO_VALUE
    seconds = (at - now) / timedelta(seconds=1)
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    name, length = next((unit for unit in units if abs(seconds) >= unit[1]), units[-1])
    count = int(abs(seconds) // length)
    return f"in {count} {name}" if seconds > 0 else f"{count} {name} ago"


def web_link(url: str | None) -> str:
    """Return an address of the web that a page may link to; "" for any other text, such as one that runs a script."""
    if not url:
        return ""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in {"http", "https"} and parts.netloc else ""


def question_link(ref: object) -> str:
    """Return the address of the page of a question."""
    return page_link("/question", ref=str(ref))


def page_link(path: str, **query: object) -> str:
    """Return the address of one of our pages; a None is left out."""
    values = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(values)}" if values else path
