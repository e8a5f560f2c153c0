"""Arm, disarm, halt, resume, approvals, principals, audit and preflight, as a person at a terminal uses them."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bot.config.loader import load_config
from bot.core.clock import SystemClock
from bot.execution.gate.execution_policy import venue_policies
from bot.execution.gate.kill_switch import STOP_FILE
from bot.jobs.operator_requests import OperatorRequestContext, handle_requests
from bot.jobs.privileged_requests import PrivilegedRequestContext
from bot.plugin_system.registry import load_registry
from bot.store.database import instance_lock
from bot.store.ledger import LEDGER_FILE, open_ledger, state_folder
from tests.acceptance.command_server import COMMAND
from tests.acceptance.conftest import CONFIG, CommandResult, FoxcastInstallation, InProcessCommand, installed

LIVE = CONFIG.replace('forecasters = ["steady"]\n', 'forecasters = ["steady"]\nmode = "live"\n')
VENUE = "forecastbench"


@pytest.fixture
def live(tmp_path: Path) -> FoxcastInstallation:
    return installed(tmp_path, LIVE)


def add(run_command: InProcessCommand, foxcast: FoxcastInstallation, name: str, role: str) -> str:
    """Add a principal and return the token."""
    answer = run_command(foxcast, "principal", "add", name, "--role", role)
    assert answer.code == 0, answer.err
    return answer.out.strip()


def test_a_venue_is_armed_for_a_time_and_disarmed(live: FoxcastInstallation, run_command: InProcessCommand) -> None:
    assert run_command(live, "arm", VENUE, "--for", "24h").out.startswith(f"{VENUE} armed until ")
    assert f"{VENUE} is armed" in run_command(live, "doctor").out
    assert run_command(live, "disarm", VENUE).out == f"{VENUE} disarmed\n"
    assert f"{VENUE} was disarmed at" in run_command(live, "doctor").out


def test_any_change_of_the_configuration_disarms_and_says_so(
    live: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    run_command(live, "arm", VENUE, "--for", "24h")
    live.config.write_text(live.config.read_text() + "\n[policy]\nprice_move = 0.1\n")
    assert "was changed after it was armed" in run_command(live, "doctor").out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["arm", VENUE, "--for", "24h", "--per-order", "0"], 2, ["--per-order must be above 0"]),
        (["arm", VENUE, "--for", "24h", "--per-order", "5"], 9, ["nothing is paid"]),
        (["arm", VENUE, "--for", "1y"], 2, ["30m, 24h or 7d"]),
        (["arm", VENUE, "--for", "130d"], 9, ["within 120 days"]),
        (["arm", VENUE], 2, ["--for"]),
        (["arm", "nowhere", "--for", "1h"], 8, ["no venue nowhere", VENUE]),
        (["disarm", "nowhere"], 8, ["no venue nowhere"]),
        (["halt"], 2, ["--reason"]),
        (["halt", "--reason", " "], 2, ["--reason is empty"]),
        (["approve", "abc"], 8, ["no request for approval", "foxcast approvals"]),
        (["principal", "add", "bob", "--role", "viewer"], 9, ["must be an approver"]),
        (["principal", "add", "bob", "--role", "king"], 2, ["--role"]),
        (["principal", "add", "b b", "--role", "viewer"], 2, ["is not a name"]),
        (["principal", "revoke", "bob"], 8, ["no principal bob"]),
        (["audit", "verify", "--head", "nowhere"], 8, ["no exported head"]),
        (["preflight", "nowhere"], 8, ["no venue nowhere"]),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_one_line_that_says_what_can(
    live: FoxcastInstallation, run_command: InProcessCommand, arguments: list[str], code: int, words: list[str]
) -> None:
    run_command(live, "resume")
    answer = run_command(live, *arguments)
    assert answer.is_refusal(code, *words), answer


def test_a_paper_venue_is_not_armed(new_installation: FoxcastInstallation, run_command: InProcessCommand) -> None:
    assert run_command(new_installation, "arm", VENUE, "--for", "1h").is_refusal(9, "mode paper", 'mode = "live"')


def test_halting_holds_at_once_and_resuming_ends_it(live: FoxcastInstallation, run_command: InProcessCommand) -> None:
    stop = live.folder / "state" / STOP_FILE
    assert run_command(live, "halt", "--reason", "prices look odd").out == "halted everything: prices look odd\n"
    assert stop.read_text().startswith("prices look odd (")
    assert "prices look odd" in run_command(live, "doctor").out
    assert "everything resumed" in run_command(live, "resume").out
    assert not stop.exists()
    assert run_command(live, "resume").out == "everything was not halted\n"


def test_halting_works_where_the_ledger_does_not(live: FoxcastInstallation, run_command: InProcessCommand) -> None:
    folder = live.folder / "state" / "live"
    folder.mkdir(parents=True)
    (folder / LEDGER_FILE).write_bytes(b"this is no database, but it is longer than its header" * 9)
    answer = run_command(live, "halt", "--reason", "odd")
    assert answer.code == 0
    assert "the ledger could not record the halt" in answer.out
    assert (live.folder / "state" / STOP_FILE).exists()


def test_from_the_first_token_on_everybody_needs_one_but_to_halt(
    live: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    run_command(live, "resume")
    assert "every user of this state folder is an approver" in run_command(live, "principal", "list").out
    token = add(run_command, live, "ann", "approver")
    arming = ("arm", VENUE, "--for", "1h")
    assert run_command(live, *arming).is_refusal(4, "arm needs a token", "FOXCAST_TOKEN")
    wrong = live.with_environment(FOXCAST_TOKEN=token + "x")
    assert run_command(wrong, *arming).is_refusal(4, "the token is unknown")
    ann = live.with_environment(FOXCAST_TOKEN=token)
    assert run_command(ann, *arming).code == 0
    operator = live.with_environment(FOXCAST_TOKEN=add(run_command, ann, "oli", "operator"))
    assert run_command(operator, *arming).is_refusal(4, "arm needs the role approver, and oli is operator")
    assert run_command(live, "halt", "--reason", "odd").code == 0
    assert run_command(live, "resume").is_refusal(4, "resume needs a token")
    assert run_command(operator, "resume").code == 0
    assert run_command(ann, "principal", "revoke", "oli").code == 0
    assert run_command(operator, "resume").is_refusal(4, "the token is unknown")


def test_a_token_file_must_be_private(live: FoxcastInstallation, run_command: InProcessCommand) -> None:
    file = live.folder / "token"
    file.write_text(add(run_command, live, "ann", "approver") + "\n")
    file.chmod(0o644)
    arming = ("arm", VENUE, "--for", "1h", "--token-file", file)
    assert run_command(live, *arming).is_refusal(2, "can be read or written by others", "chmod 600")
    file.chmod(0o600)
    assert run_command(live, *arming).code == 0
    assert run_command(live, *arming[:-1], "nowhere").is_refusal(2, "cannot be read")


def test_tokens_stand_nowhere_in_the_state_folder(live: FoxcastInstallation, run_command: InProcessCommand) -> None:
    token = add(run_command, live, "ann", "approver")
    ann = live.with_environment(FOXCAST_TOKEN=token)
    for arguments in (("arm", VENUE, "--for", "1h"), ("halt", "--reason", "odd"), ("resume",), ("disarm", VENUE)):
        assert run_command(ann, *arguments).code == 0
    files = [path for path in (live.folder / "state").rglob("*") if path.is_file() and path.stat().st_size < 10**8]
    assert any(path.name == LEDGER_FILE for path in files)
    assert [path for path in files if token.encode() in path.read_bytes()] == []
    output = run_command(ann, "audit", "show", "--json").out + run_command(ann, "principal", "list", "--json").out
    assert token not in output


def test_the_audit_tells_who_did_what_and_shows_what_was_changed(
    live: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    run_command(live, "arm", VENUE, "--for", "1h")
    run_command(live, "halt", "--reason", "odd")
    run_command(live, "resume")
    rows = run_command(live, "audit", "show", "--json").json
    assert [row["kind"] for row in rows] == ["resume", "halt", "arm"]
    assert run_command(live, "audit", "verify").out.startswith("3 rows, the chain is intact")
    head = live.folder / "head"
    assert run_command(live, "audit", "head", head).code == 0
    assert "contains the head" in run_command(live, "audit", "verify", "--head", head).out
    with closing(sqlite3.connect(live.folder / "state" / "live" / LEDGER_FILE)) as connection:
        connection.execute("drop trigger audit_is_not_shortened")
        connection.execute("delete from audit where seq = 3")
        connection.commit()
    assert run_command(live, "audit", "verify").code == 0
    answer = run_command(live, "audit", "verify", "--head", head)
    assert answer.code == 1
    assert "its tail was cut off" in answer.out
    with closing(sqlite3.connect(live.folder / "state" / "live" / LEDGER_FILE)) as connection:
        connection.execute("drop trigger audit_is_not_changed")
        connection.execute("update audit set actor = 'somebody else' where seq = 1")
        connection.commit()
    answer = run_command(live, "audit", "verify", "--json")
    assert (answer.code, answer.json["bad"]) == (1, 1)


def test_preflight_shows_what_would_leave_and_sends_nothing(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    stop = new_installation.folder / "state" / STOP_FILE
    stop.parent.mkdir()
    stop.write_text("first look\n")
    assert new_installation("run", "--once").code == 0
    held = run_command(new_installation, "preflight", VENUE, "--json").json
    assert held["sends"] == []
    assert {hold["why"] for hold in held["holds"]} == {"halted by STOP: first look"}
    assert "held because" in run_command(new_installation, "preflight", VENUE).out
    stop.unlink()
    shown = run_command(new_installation, "preflight", VENUE, "--json").json
    assert len(shown["sends"]) == len(held["holds"]) > 0
    assert shown["holds"] == []
    assert all(send["bytes"] > 0 and len(send["sha256"]) == 64 for send in shown["sends"])
    with closing(sqlite3.connect(new_installation.folder / "state" / "paper" / LEDGER_FILE)) as connection:
        assert connection.execute("select count(*) from intent").fetchone() == (0,)


@pytest.mark.parametrize("columns", ["40", "60", "80"])
def test_narrow_terminals_get_the_same_answers(
    live: FoxcastInstallation, run_command: InProcessCommand, columns: str
) -> None:
    run_command(live, "arm", VENUE, "--for", "1h")
    narrow = live.with_environment(COLUMNS=columns)
    for arguments in (["audit", "show"], ["approvals"], ["principal", "list"], ["preflight", VENUE]):
        answer = run_command(narrow, *arguments)
        assert (answer.code, answer.err) == (0, ""), arguments
        assert answer.out.strip()


class InProcessDaemon:
    """Holds the ledger of an installation and does what it is asked, as the daemon does."""

    def __init__(self, foxcast: FoxcastInstallation) -> None:
        self.config = load_config(foxcast.config)
        self.folder = state_folder(self.config)
        self.foxcast = foxcast

    async def answer(self, *arguments: str, permitting: bool = True) -> CommandResult:
        clock = SystemClock()
        with instance_lock(self.folder, started_at=clock.now()):
            async with open_ledger(self.folder / LEDGER_FILE, now=clock.now()) as ledger:
                permits = PrivilegedRequestContext(
                    ledger=ledger,
                    clock=clock,
                    stop_file=self.config.state / STOP_FILE,
                    execution_policies=venue_policies(self.config, load_registry(self.config).specs_of_table),
                )
                parts = OperatorRequestContext(
                    folder=self.folder, ledger=ledger, clock=clock, privileged_requests=permits if permitting else None
                )
                asking = asyncio.create_task(self._called(*arguments))
                while not asking.done():
                    await handle_requests(parts)
                    await clock.sleep(0.05)
                return await asking

    async def _called(self, *arguments: str) -> CommandResult:
        process = await asyncio.create_subprocess_exec(
            COMMAND,
            *arguments,
            cwd=self.foxcast.folder,
            env=self.foxcast.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return CommandResult(process.returncode or 0, out.decode(), err.decode())


async def test_while_a_daemon_runs_it_does_what_is_asked_and_its_answer_is_told(live: FoxcastInstallation) -> None:
    answer = await InProcessDaemon(live).answer("arm", VENUE, "--for", "1h")
    assert answer.out.startswith(f"{VENUE} armed until "), answer


async def test_what_a_daemon_refuses_is_told_with_its_reason(live: FoxcastInstallation) -> None:
    answer = await InProcessDaemon(live).answer("arm", VENUE, "--for", "1h", permitting=False)
    assert answer.is_refusal(9, "permission to submit is not managed here"), answer


async def test_an_arm_record_for_another_configuration_than_the_daemon_runs_with_is_refused(
    live: FoxcastInstallation,
) -> None:
    daemon = InProcessDaemon(live)
    live.config.write_text(live.config.read_text() + "\n[policy]\nprice_move = 0.1\n")
    answer = await daemon.answer("arm", VENUE, "--for", "1h")
    assert answer.is_refusal(9, "another configuration", "restart it"), answer
