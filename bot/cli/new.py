"""`foxcast new`: write an installable package for a plugin, which passes its tests at once.

The files are templates in plugin_templates: those of the kind, and those of `common` that the kind does not replace.
"""

import keyword
import re
import shlex
import tomllib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bot.core.errors import ConfigError
from bot.core.plugin_specs import (
    NAME_PATTERN,
    BaseSpec,
    CommandSpec,
    DataSpec,
    ForecasterSpec,
    ModelSpec,
    NotifierSpec,
    SearchSpec,
    VenueSpec,
)
from bot.plugin_system.discovery import BUILT_IN_CONFIG, PluginOrigin, discover_plugins
from bot.plugin_system.registry import find_offering_plugin

TEMPLATE_FOLDER = Path(__file__).parent / "plugin_templates"
COMMON_FOLDER = "common"
TEMPLATE_SUFFIX = ".jinja"
# Stands for the name of the package in paths of templates.
PACKAGE_PLACEHOLDER = "src/package"
# Lines of templates stay within their limit.
MAX_NAME_LENGTH = 30

app = typer.Typer(add_completion=False)


class PluginKind(StrEnum):
    """What a new package offers."""

    VENUE = "venue"
    FORECASTER = "forecaster"
    SEARCH = "search"
    DATA = "data"
    MODEL = "model"
    NOTIFIER = "notifier"
    COMMAND = "command"


SPEC_KINDS: dict[PluginKind, type[BaseSpec]] = {
    PluginKind.VENUE: VenueSpec,
    PluginKind.FORECASTER: ForecasterSpec,
    PluginKind.SEARCH: SearchSpec,
    PluginKind.DATA: DataSpec,
    PluginKind.MODEL: ModelSpec,
    PluginKind.NOTIFIER: NotifierSpec,
    PluginKind.COMMAND: CommandSpec,
}


KIND_TITLES = {
    PluginKind.SEARCH: "search engine",
    PluginKind.DATA: "data source",
    PluginKind.MODEL: "model provider",
}


@app.command()
def new(
    kind: Annotated[PluginKind, typer.Argument(help="What it offers.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name in config.toml, such as my_venue.")],
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to create; default: ./foxcast-NAME.")
    ] = None,
) -> None:
    """Write an installable package for a plugin of your own, which passes its tests at once."""
    if objection := name_objection(kind, name):
        raise typer.BadParameter(objection, param_hint="NAME")
    target = folder or Path(distribution_name(name))
    write_package(render_package(kind, name), target)
    shown = shlex.quote(str(target))
    title = KIND_TITLES.get(kind, kind)
    typer.echo(f"wrote {target}: the {title} {name}, its tests, and a config.toml that runs. Next:")
    typer.echo(f"  python -m pip install --editable {shlex.quote(f'{target}[test]')}")
    typer.echo(f"  python -m pytest {shown}")


def distribution_name(name: str) -> str:
    """Return the name of the distribution of a plugin."""
    return f"foxcast-{name.replace('_', '-')}"


def name_objection(kind: PluginKind, name: str) -> str:
    """Return why a plugin cannot have that name, "" if it can."""
    from bot.cli.main import COMMANDS

    if not re.fullmatch(NAME_PATTERN, name) or len(name) > MAX_NAME_LENGTH:
        return (
            f"{name!r} should be lower-case letters, digits and single underscores, begin with a letter, and have at "
            f"most {MAX_NAME_LENGTH} characters"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        return f"{name} is a word of Python"
    if kind is PluginKind.COMMAND and name in COMMANDS:
        return f"foxcast {name} is a built-in command, which would hide yours"
    found = discover_plugins()
    if (plugin := next((one for one in found if one.name == name), None)) is not None:
        built_in = plugin.origin is PluginOrigin.BUILT_IN
        return f"there is a built-in plugin {name}" if built_in else f"there is a plugin {name}: {plugin.where}"
    owner = find_offering_plugin([one for one in found if one.origin is PluginOrigin.BUILT_IN], SPEC_KINDS[kind], name)
    return f"the built-in plugin {owner} offers a {KIND_TITLES.get(kind, kind)} {name}" if owner else ""


def render_package(kind: PluginKind, name: str) -> dict[Path, str]:
    """Return the text of each file of the package, by its path in it."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE_FOLDER),
        autoescape=False,  # noqa: S701 - Python and TOML, and a name of letters, digits and underscores
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    package = f"foxcast_{name}"
    # Questions that need no network.
    (sample_venue, sample), *_ = tomllib.loads(BUILT_IN_CONFIG.read_text(encoding="utf-8"))["venues"].items()
    values = {
        "title": KIND_TITLES.get(kind, kind),
        "name": name,
        "package": package,
        "distribution": distribution_name(name),
        "cls": "".join(part.capitalize() for part in name.split("_")),
        # A placeholder that can never be anybody's: https://www.rfc-editor.org/rfc/rfc2606#section-2
        "host": f"{name.replace('_', '-')}.example",
        "sample_venue": sample_venue,
        "sample_forecaster": sample["forecasters"][0],
    }
    templates = dict(_templates(COMMON_FOLDER)) | dict(_templates(str(kind)))
    return {
        Path(path.replace(PACKAGE_PLACEHOLDER, f"src/{package}")): environment.get_template(template).render(values)
        for path, template in templates.items()
    }


def _templates(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the path in the package and the name of each template of a folder."""
    root = TEMPLATE_FOLDER / folder
    for path in sorted(root.rglob("*")):
        if path.is_file():
            inside = path.relative_to(root).as_posix()
            yield inside.removesuffix(TEMPLATE_SUFFIX), f"{folder}/{inside}"


def write_package(files: dict[Path, str], target: Path) -> None:
    """Write the files into a new folder; raises ConfigError if there is such a folder, or if it cannot be written."""
    try:
        target.mkdir(parents=True)
        for path, text in files.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_text(text, encoding="utf-8")
    except FileExistsError as error:
        message = f"{target} exists already; name another folder with --folder"
        raise ConfigError(message) from error
    except OSError as error:
        message = f"{target} cannot be written: {error.strerror}"
        raise ConfigError(message) from error
