"""A small version of ``make campaign``, and that it finds what it is there to find and goes on where it stopped."""

import json
import math
import random
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from bot.core.errors import MalformedDataError
from tests.campaign import __main__ as command
from tests.campaign.campaign_parts import PARTS, CampaignPart
from tests.campaign.failpoint_pairs import FAILPOINTS, FORMS, pair_of
from tests.campaign.fuzz_targets import FuzzTarget, list_targets
from tests.campaign.fuzzing import fuzz
from tests.campaign.input_mutation import Mutate, mutate
from tests.campaign.soak import SoakReading, growth
from tests.campaign.storage_faults import WRITER_THREAD, StorageFault, storage_fault

TARGETS = {target.name: target for target in list_targets()}


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_reads_mutated_inputs_or_refuses_them_with_a_clear_error(name: str, tmp_path: Path) -> None:
    counts = fuzz(TARGETS[name], tmp_path, first=10**9, count=40, deadline=math.inf)
    assert counts.findings == {}
    assert counts.inputs == 40


def test_every_kind_of_source_is_mutated() -> None:
    assert {name.partition(" ")[0] for name in TARGETS} == {"data", "files", "models", "pages", "search", "venues"}


def test_the_same_input_has_the_same_mutation_and_another_has_another() -> None:
    body = json.dumps({"a": [1, 2, {"b": "text"}], "c": None}).encode()
    found = [mutate(random.Random(str(number)), body) for number in range(200)]
    assert found == [mutate(random.Random(str(number)), body) for number in range(200)]
    assert len(set(found)) > 100


@pytest.mark.parametrize(
    ("careless", "says"),
    [
        (lambda body: json.loads(body)["price"] + 1, "Error at"),
        (lambda _: _refuse(""), "an error without a text"),
        (lambda _: _refuse("\ud800"), "an error that cannot be printed"),
        (lambda _: _refuse("x" * 20_000), "longer than a page"),
    ],
)
def test_a_careless_parser_is_found_out(careless: Any, says: str, tmp_path: Path) -> None:
    def open_careless(_: Path) -> Any:
        seen: list[bytes] = []

        async def read(mutation: Mutate) -> object:
            seen.append(mutation(b'{"price": 1}'))
            return careless(seen[-1]) if len(seen) > 1 else None

        return read

    counts = fuzz(FuzzTarget(name="careless", open=open_careless), tmp_path, first=0, count=50, deadline=math.inf)
    assert counts.findings
    assert any(says in kind for kind in counts.findings)


def _refuse(text: str) -> None:
    raise MalformedDataError(text)


def test_the_campaign_goes_on_where_it_stopped_and_keeps_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = (
        "import sys; first = int(sys.argv[1]); print('FOUND a bug') if first == 4 else 0; print('4 inputs, 1 refused')"
    )
    (tmp_path / "sound.py").write_text(program, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    asked: list[int] = []

    def arguments(done: int) -> tuple[str, ...]:
        asked.append(done)
        return "sound", str(done)

    part = CampaignPart(
        name="inputs",
        what="inputs",
        unit="inputs",
        full=12,
        hours=1.0,
        command=arguments,
        read=PARTS["inputs"].read,
    )
    monkeypatch.setitem(PARTS, "inputs", part)
    options = ["--part", "inputs", "--progress", str(tmp_path / "progress.json")]
    assert [command.main([*options, "--steps", "1"]) for _ in range(3)] == [0, 1, 0]
    assert asked == [0, 4, 8]
    text = capsys.readouterr().out
    assert "| 12 inputs | 12 (100.0%) |" in text
    assert text.splitlines()[-3].endswith("| 1 | refused 3 |")
    assert command.main(options) == 0
    assert asked == [0, 4, 8]


def test_a_step_that_breaks_down_is_a_finding(tmp_path: Path) -> None:
    part = PARTS["inputs"]
    broken = CampaignPart(
        name="inputs", what="", unit="inputs", full=1, hours=1.0, command=lambda _: ("no_such_module",), read=part.read
    )
    step = broken.run_step(0)
    assert step.done == 0
    assert "No module named no_such_module" in step.findings[0]


def test_each_pair_of_failpoints_is_played_in_each_form() -> None:
    numbers = range(PARTS["pairs"].full)
    assert {pair_of(number) for number in numbers} == {(a, b) for a in range(FAILPOINTS) for b in range(FAILPOINTS)}
    assert len(numbers) == FORMS * FAILPOINTS**2


def test_what_grows_is_not_flat() -> None:
    flat = [SoakReading(memory_mb=100.0 + place % 3, files=30, threads=5, lag_s=0.01) for place in range(40)]
    assert growth(flat) == []
    leaking = [SoakReading(memory_mb=100.0 + place, files=30 + place, threads=5, lag_s=1.0) for place in range(40)]
    assert [one.split()[0] for one in growth(leaking)] == ["memory_mb", "files", "the"]
    assert growth(flat[:3]) == ["too few readings to compare"]


@pytest.mark.parametrize(("at", "kept"), [(3, []), (4, [(1,)])])
def test_a_storage_fault_may_come_before_or_after_the_commit(tmp_path: Path, at: int, kept: list[tuple[int]]) -> None:
    fault = StorageFault(at=4, is_late=at == 4, code=sqlite3.SQLITE_FULL, text="database or disk is full")
    errors: list[str] = []

    def write() -> None:
        database = sqlite3.connect(tmp_path / "x.sqlite", isolation_level=None)
        try:
            for sql in ("create table t (a)", "begin", "insert into t values (1)", "commit"):
                database.execute(sql)
        except sqlite3.OperationalError as error:
            errors.append(f"{error} {error.sqlite_errorcode}")
        database.close()

    with storage_fault(fault):
        writer = threading.Thread(target=write, name=WRITER_THREAD)
        writer.start()
        writer.join()
    assert errors == [f"database or disk is full {sqlite3.SQLITE_FULL}"]
    assert fault.statement == "commit"
    assert sqlite3.connect(tmp_path / "x.sqlite").execute("select a from t").fetchall() == kept
