"""Until when the texts reach that a model was trained on: what config says of it, else what its maker has published.

The published dates are in ``knowledge_cutoffs.txt`` of the package of the built-in plugins, since the engine names no
model. A name there stands for its dated versions, sizes and previews, at whatever provider: ``maker/name``,
``maker.name-v1:0`` and ``name@20250101`` are the same model. A model of which nothing is known has no date, which
never means that it knows nothing.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from importlib import resources

from bot.config.llm_schema import LlmSection
from bot.discovery import BUILT_IN
from bot.llm.roles import name_of

FILE = "knowledge_cutoffs.txt"

# Labels before a name that say who made or serves it, as some providers write them.
_MAKERS = re.compile(r"^(?:[a-z]+\.)+(?=[a-z])")
_FAMILY_AND_NUMBER = re.compile(r"^([a-z]+)(?=\d)")
# What may follow a name without making another model of it.
_VERSION = (
    r"latest|preview|exp|experimental|customtools|instruct|it|chat|turbo|vision|text|hf|versatile|instant|thinking"
    r"|reasoning|online|free|beta|high|medium|low|gguf|bf16|fp\d+|q\d(?:-[a-z0-9])*"
    r"|\d{4}-\d{2}-\d{2}|\d{2}-\d{2}|\d{3,8}|\d+k|v\d+(?:-\d+)?|\d+b|[ae]\d+b|\d+e"
)
_REST = re.compile(rf"(?:-(?:{_VERSION}))*")


def knowledge_cutoff(model: str, section: LlmSection) -> date | None:
    """Return the last day that a model may know anything of, None where that is not known.

    ``model`` is named ``provider:name``; a ``knowledge_cutoff`` in its table of config counts before what is shipped.
    """
    table = section.models.get(model)
    if table is not None and table.knowledge_cutoff is not None:
        return table.knowledge_cutoff
    return published_cutoff(name_of(model), shipped_cutoffs())


def published_cutoff(name: str, cutoffs: Mapping[str, date]) -> date | None:
    """Return the date of the longest of the names that a model's name is a version of."""
    wanted = canonical(name)
    fitting = [
        known for known in cutoffs if wanted.startswith(known) and _REST.fullmatch(wanted[len(known) :]) is not None
    ]
    return cutoffs[max(fitting, key=len)] if fitting else None


@cache
def shipped_cutoffs() -> Mapping[str, date]:
    """Return the published dates by canonical name."""
    text = resources.files(BUILT_IN).joinpath(FILE).read_text(encoding="utf-8")
    return dict(_entries(text))


def canonical(name: str) -> str:
    """Return a model's name without its maker and in one spelling: ``maker/Name2.1:free`` is ``name-2-1-free``."""
    bare = _MAKERS.sub("", name.rpartition("/")[2].casefold())
    bare = _FAMILY_AND_NUMBER.sub(r"\1-", bare)
    return re.sub(r"[^a-z0-9]+", "-", bare).strip("-")


def _entries(text: str) -> Iterator[tuple[str, date]]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, day = line.split()
            yield canonical(name), date.fromisoformat(day)
