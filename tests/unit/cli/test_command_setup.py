"""What the log tells: nothing below info where a venue is live, no secret ever, and libraries speak up at warnings."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import typer
from typer.main import get_command

from bot.cli.command_setup import CHATTY_LOGGERS, load_command_config
from bot.cli.main import app
from bot.cli.options import CommandInvocation
from bot.core.redaction import REDACTION_MARK, register_secrets

KEY = "canary-session-77-abc"


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    factory, root = logging.getLogRecordFactory(), logging.getLogger()
    handlers, level = [*root.handlers], root.level
    for handler in handlers:
        root.removeHandler(handler)
    yield
    structlog.reset_defaults()
    logging.setLogRecordFactory(factory)
    root.handlers[:] = handlers
    root.setLevel(level)


def begin(folder: Path, mode: str, form: str = "json") -> None:
    file = folder / "config.toml"
    file.write_text(
        f'[log]\nlevel = "debug"\nformat = "{form}"\n[venues.lantern]\nmode = "{mode}"\nforecasters = ["oracle"]\n'
    )
    load_command_config(
        typer.Context(get_command(app), obj=CommandInvocation(config_path=file)), min_level=logging.DEBUG
    )


@pytest.mark.parametrize("mode", ["live", "approve"])
def test_where_a_venue_is_live_debug_is_not_logged_and_that_is_said(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(tmp_path, mode)
    assert "debug is not allowed with live venues; info is used" in capsys.readouterr().err
    structlog.get_logger().debug("whispered")
    structlog.get_logger().info("told")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["told"]


def test_on_paper_debug_is_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin(tmp_path, "paper")
    structlog.get_logger().debug("whispered")
    [line] = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "whispered"


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_secret_is_logged_by_us_or_by_a_library(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    begin(tmp_path, "paper", form)
    register_secrets(KEY)
    structlog.get_logger().info(f"sent {KEY}", header={"Authorization": f"Key {KEY}"}, raw=KEY.encode())
    logging.getLogger("library").warning("GET /?apiKey=%s", KEY)
    try:
        int(KEY)
    except ValueError:
        structlog.get_logger().exception("broken")
        logging.getLogger("library").exception("broken, too")
    said = capsys.readouterr().err
    assert KEY not in said + caplog.text
    assert said.count(REDACTION_MARK) >= 4
    # The message, and the traceback.
    assert caplog.text.count(REDACTION_MARK) == 2


def test_libraries_that_log_whole_requests_are_heard_from_warnings_on(tmp_path: Path) -> None:
    begin(tmp_path, "paper")
    assert [logging.getLogger(name).isEnabledFor(logging.INFO) for name in CHATTY_LOGGERS] == [False] * len(
        CHATTY_LOGGERS
    )
    assert all(logging.getLogger(name).isEnabledFor(logging.WARNING) for name in CHATTY_LOGGERS)
