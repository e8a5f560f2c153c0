"""The unit for systemd, read by systemd's own checker where it is installed."""

import getpass
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bot.cli.service import ServiceUnit, build_unit
from bot.config.loader import load_config
from bot.core.errors import ConfigError

CHECKER = shutil.which("systemd-analyze")
needs_checker = pytest.mark.skipif(CHECKER is None, reason="systemd-analyze is not installed")
# A user that every machine has and that is not root.
ACCOUNT = "daemon"


def unit(folder: Path, *, account: str | None = None, program: Sequence[str] = ("/bin/true",)) -> ServiceUnit:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text('state = "state"\n')
    config = load_config(folder / "config.toml")
    return build_unit(config, program, system=account is not None, account=account)


def check(text: str, folder: Path, *arguments: str) -> str:
    """Return what the checker says about the unit; it must accept it."""
    file = folder / "foxcast.service"
    file.write_text(text)
    assert CHECKER is not None
    done = subprocess.run([CHECKER, *arguments, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@needs_checker
@pytest.mark.parametrize("account", [None, ACCOUNT])
@pytest.mark.parametrize("name", ["plain", "with space", '100% "odd" $HOME \\ ö'])
def test_systemd_accepts_it(tmp_path: Path, account: str | None, name: str) -> None:
    assert check(unit(tmp_path / name, account=account).text, tmp_path, "verify") == ""


@needs_checker
def test_the_checker_sees_a_mistake(tmp_path: Path) -> None:
    text = unit(tmp_path).text.replace("RestartSec=10s", "RestartSec=soon")
    assert "Failed to parse" in check(text, tmp_path, "verify")


@needs_checker
def test_a_unit_of_the_system_is_hardened(tmp_path: Path) -> None:
    found = check(unit(tmp_path, account=ACCOUNT).text, tmp_path, "security", "--offline=true")
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", found)
    assert exposure is not None
    # Of 10; systemd calls less than 2.5 OK.
    assert float(exposure[1]) < 2.5


def test_it_runs_this_program_with_this_configuration_under_the_watchdog(tmp_path: Path) -> None:
    own = unit(tmp_path / "a b", program=("/opt/fox cast", "100%", "$x"))
    lines = own.text.splitlines()
    assert f'ExecStart="/opt/fox cast" "100%%" "$$x" "--config" "{tmp_path}/a b/config.toml" "run"' in lines
    assert f"WorkingDirectory={tmp_path}/a b" in lines
    assert {"Type=notify", "WatchdogSec=2min", "UMask=0077", "WantedBy=default.target"} <= set(lines)
    assert not [line for line in lines if line.startswith(("User=", "ProtectSystem="))]
    system = unit(tmp_path / "a b", account=ACCOUNT).text.splitlines()
    assert f'ReadWritePaths="{tmp_path}/a b/state"' in system
    assert {f"User={ACCOUNT}", "ProtectSystem=strict", "WantedBy=multi-user.target"} <= set(system)


def test_a_user_that_does_not_exist_or_is_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no user nobody-of-that-name"):
        unit(tmp_path, account="nobody-of-that-name")
    with pytest.raises(ConfigError, match="needs no rights of root"):
        unit(tmp_path, account="root")
    config = load_config(tmp_path / "config.toml")
    with pytest.raises(ConfigError, match="name the user"):
        build_unit(config, ("/bin/true",), system=True, account=None)
    with pytest.raises(ConfigError, match="--as is for --system"):
        build_unit(config, ("/bin/true",), system=False, account=getpass.getuser())


def test_a_path_with_a_line_break_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot hold the path"):
        unit(tmp_path / "a\nExecStartPre=/bin/evil")
