"""Training cutoffs of language models: the date from config, else the one that its maker published.

A model that is not listed has no date, which never means that it knows nothing.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from importlib import resources

from bot.config.schema import LlmSection
from bot.llm.roles import bare_model_name
from bot.plugin_system.discovery import BUILT_IN_PACKAGE

CUTOFFS_FILE = "knowledge_cutoffs.txt"

# Labels before a name that say who made or serves the model, as some providers write them.
_MAKER_PREFIX = re.compile(r"^(?:[a-z]+\.)+(?=[a-z])")
_FAMILY_AND_NUMBER = re.compile(r"^([a-z]+)(?=\d)")
# What may follow a name without making it another model.
_VERSION_WORD = (
    r"latest|preview|exp|experimental|customtools|instruct|it|chat|turbo|vision|text|hf|versatile|instant|thinking"
    r"|reasoning|online|free|beta|high|medium|low|gguf|bf16|fp\d+|q\d(?:-[a-z0-9])*"
    r"|\d{4}-\d{2}-\d{2}|\d{2}-\d{2}|\d{3,8}|\d+k|v\d+(?:-\d+)?|\d+b|[ae]\d+b|\d+e"
)
_VERSION_SUFFIX = re.compile(rf"(?:-(?:{_VERSION_WORD}))*")


def knowledge_cutoff(model: str, section: LlmSection) -> date | None:
    """Return the last day of the model's knowledge, None where that is not known.

    ``model`` is named ``provider:name``; a ``knowledge_cutoff`` in its table of config takes precedence over the
    shipped date.
    """
    table = section.models.get(model)
    if table is not None and table.knowledge_cutoff is not None:
        return table.knowledge_cutoff
    return published_cutoff(bare_model_name(model), shipped_cutoffs())


def published_cutoff(name: str, cutoffs: Mapping[str, date]) -> date | None:
    """Return the date of the longest of the names that a model's name is a version of."""
    wanted = canonical_model_name(name)
    fitting = [
        known
        for known in cutoffs
        if wanted.startswith(known) and _VERSION_SUFFIX.fullmatch(wanted[len(known) :]) is not None
    ]
    return cutoffs[max(fitting, key=len)] if fitting else None


@cache
def shipped_cutoffs() -> Mapping[str, date]:
    """Return the published dates by canonical name."""
    text = resources.files(BUILT_IN_PACKAGE).joinpath(CUTOFFS_FILE).read_text(encoding="utf-8")
    return dict(_parse_entries(text))


def canonical_model_name(name: str) -> str:
    """Return a model's name without its maker and in one spelling: ``maker/Name2.1:free`` is ``name-2-1-free``."""
    bare = _MAKER_PREFIX.sub("", name.rpartition("/")[2].casefold())
    bare = _FAMILY_AND_NUMBER.sub(r"\1-", bare)
    return re.sub(r"[^a-z0-9]+", "-", bare).strip("-")


def _parse_entries(text: str) -> Iterator[tuple[str, date]]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, day = line.split()
            yield canonical_model_name(name), date.fromisoformat(day)
