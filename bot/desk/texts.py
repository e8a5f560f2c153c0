"""The texts that roles inside the desk are asked with: files beside this module, with named placeholders."""

from functools import cache
from importlib.resources import files
from string import Template


def role_text(name: str, **values: str) -> str:
    """Return the text ``prompts/<name>.txt`` with its placeholders filled; raises KeyError for one without a value."""
    return Template(unfilled(name)).substitute(values)


@cache
def unfilled(name: str) -> str:
    """Return the text with its placeholders: its digest is the version of the text."""
    return files("bot.desk").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
