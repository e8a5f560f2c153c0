"""The table of commands against the modules behind it."""

import importlib
import pkgutil

import pytest
from typer import Typer
from typer.main import get_command

import bot.cli
from bot.cli.main import COMMANDS

MODULES = [f"bot.cli.{found.name}" for found in pkgutil.iter_modules(bot.cli.__path__) if not found.ispkg]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_overview_says_of_a_command_what_its_own_help_says(name: str) -> None:
    entry = COMMANDS[name]
    command = get_command(getattr(importlib.import_module(entry.module), entry.app))
    assert (command.help or "").splitlines()[0] == COMMANDS[name].summary


def test_every_app_of_a_command_module_is_in_the_table() -> None:
    listed = {(entry.module, entry.app) for entry in COMMANDS.values()} | {("bot.cli.main", "app")}
    modules = [importlib.import_module(name) for name in MODULES]
    apps = {
        (module.__name__, name) for module in modules for name, one in vars(module).items() if isinstance(one, Typer)
    }
    assert apps == listed
