from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.domain.permission import ApprovalState, Role
from bot.domain.question import QuestionRef
from bot.domain.request import (
    AddPrincipal,
    AdoptIntent,
    AnswerApproval,
    ArmVenue,
    DisarmVenue,
    ForecastQuestion,
    Halt,
    LeaveRequest,
    Resume,
    RevokePrincipal,
    UnlockQuestion,
    WithdrawForecast,
)
from bot.domain.submission import Mode
from bot.errors import NotFound, Rejected, Unauthorized
from bot.gate.roles import Act
from bot.gate.tokens import hashed, proof_of
from bot.jobs.attend import Attending, attend
from bot.jobs.permit import Adopt, Permitting, act_of, permit, require_allowed
from bot.store import stops
from bot.store.audit import HEAD_FILE
from bot.store.mailbox import REFUSED
from bot.store.requests import FOLDER, ask, said
from tests.unit.gate.test_roles import ALLOWED
from tests.unit.jobs.conftest import VENUE, House
from tests.unit.jobs.market import DIGEST, Shopfloor
from tests.unit.store.test_audit import tamper

OTHER = QuestionRef(VENUE, "snow")
TOKENS = {"ann": Role.APPROVER, "oli": Role.OPERATOR, "vic": Role.VIEWER}
KEYS = {name: hashed(f"token of {name}", "00" * 16) for name in TOKENS}


class Office:
    """Asks, in the name of somebody, with the proof that their token makes."""

    def __init__(self, floor: Shopfloor) -> None:
        self.floor, self.house = floor, floor.house
        self.adopt: Adopt | None = None
        floor.bound(Mode.LIVE)

    @property
    def parts(self) -> Permitting:
        return Permitting(
            ledger=self.house.ledger,
            clock=self.house.clock,
            stop_file=self.house.path / "STOP",
            lanes={VENUE: self.floor.lane},
            trading=frozenset({VENUE}),
            adopt=self.adopt,
            resumed=lambda _: self.floor.readiness.outdate(),
        )

    async def ask(self, kind: type[Any], by: str = "ann", **fields: Any) -> str:
        return await permit(self.parts, self.request(kind, by, **fields))

    def request(self, kind: type[Any], by: str = "ann", **fields: Any) -> LeaveRequest:
        now = self.house.clock.now()
        if kind is ArmVenue:
            given = {"venue": VENUE, "account": "me", "config": DIGEST, "until": now + timedelta(hours=24)}
            fields = given | {"per_order": 5.0, "per_day": 10.0, "total": 20.0} | fields
        request: LeaveRequest = kind(by=by, asked_at=now, **fields)
        return replace(request, proof=proof_of(KEYS[by].hash, said(request))) if by in KEYS else request

    async def hire(self) -> None:
        for name, role in TOKENS.items():
            await self.ask(AddPrincipal, name=name, role=role, salt=KEYS[name].salt, hash=KEYS[name].hash)

    async def standing(self) -> list[stops.Stop]:
        return await self.house.ledger.leave.read(stops.standing)

    async def kinds(self) -> list[str]:
        return [row.kind for row in await self.house.ledger.leave.audited(limit=9)]


@pytest.fixture
async def office(house: House) -> AsyncIterator[Office]:
    office = Office(Shopfloor.of(house))
    yield office
    assert (await house.ledger.leave.verify()).sound


REQUESTS: dict[Act, tuple[type[Any], dict[str, Any]]] = {
    Act.ARM: (ArmVenue, {}),
    Act.DISARM: (DisarmVenue, {"venue": VENUE}),
    Act.HALT: (Halt, {"reason": "odd"}),
    Act.RESUME: (Resume, {}),
    Act.APPROVE: (AnswerApproval, {"approval": "there is none", "approved": True}),
    Act.REJECT: (AnswerApproval, {"approval": "there is none", "approved": False}),
    Act.ADD_PRINCIPAL: (AddPrincipal, {"name": "new", "role": Role.VIEWER, "salt": "00" * 16, "hash": "11" * 32}),
    Act.REVOKE_PRINCIPAL: (RevokePrincipal, {"name": "vic"}),
    Act.ADOPT: (AdoptIntent, {"intent": "there is none", "absent": True}),
    Act.WITHDRAW: (WithdrawForecast, {"ref": OTHER}),
}


@pytest.mark.parametrize("act", REQUESTS)
@pytest.mark.parametrize("by", [*TOKENS, "nobody"])
async def test_each_person_is_let_do_what_their_role_allows_and_nothing_else(office: Office, by: str, act: Act) -> None:
    await office.hire()
    kind, fields = REQUESTS[act]
    request = office.request(kind, by, **fields)
    assert act_of(request) is act
    before = await office.house.ledger.leave.head()
    if act not in ALLOWED[TOKENS.get(by)]:
        with pytest.raises(Unauthorized, match=f"{act} needs the role"):
            await permit(office.parts, request)
        assert await office.house.ledger.leave.head() == before
    elif kind in {AnswerApproval, AdoptIntent}:
        with pytest.raises(NotFound):
            await permit(office.parts, request)
    elif kind is WithdrawForecast:
        with pytest.raises(Rejected, match="no forecasts that stand"):
            await permit(office.parts, request)
    else:
        await permit(office.parts, request)
        assert (await office.kinds())[0] == act.value


@pytest.mark.parametrize(
    "forge",
    [
        lambda request: replace(request, proof=""),
        lambda request: replace(request, proof="00" * 32),
        lambda request: replace(request, total=1e9),
        lambda request: replace(request, by="oli"),
        lambda request: replace(request, asked_at=request.asked_at + timedelta(seconds=1)),
    ],
    ids=["no proof", "another proof", "more money", "another name", "another time"],
)
async def test_a_request_that_was_forged_or_changed_is_refused(office: Office, forge: Any) -> None:
    await office.hire()
    with pytest.raises(Unauthorized):
        await permit(office.parts, forge(office.request(ArmVenue)))


async def test_a_request_of_long_ago_is_refused(office: Office) -> None:
    await office.hire()
    request = office.request(Resume)
    await office.house.clock.advance(16 * 60)
    with pytest.raises(Unauthorized, match="too long ago; ask again"):
        await permit(office.parts, request)


@pytest.mark.parametrize("act", [Act.UNLOCK, Act.FORECAST])
@pytest.mark.parametrize("by", [*TOKENS, "nobody"])
async def test_who_takes_locks_off_or_has_models_asked_needs_a_role(office: Office, by: str, act: Act) -> None:
    known = [*TOKENS.items()]
    await office.hire()
    ref, now = QuestionRef(VENUE, "rain"), office.house.clock.now()
    made: UnlockQuestion | ForecastQuestion = UnlockQuestion(ref=ref, by=by, asked_at=now)
    if act is Act.FORECAST:
        made = ForecastQuestion(ref=ref, forecaster="first", by=by, asked_at=now)
    request = replace(made, proof=proof_of(KEYS[by].hash, said(made))) if by in KEYS else made
    people = await office.house.ledger.leave.principals()
    assert [(one.name, one.role) for one in people] == known
    if act in ALLOWED[TOKENS.get(by)]:
        require_allowed(request, people, now=now)
        for forged in (replace(request, by=""), replace(request, asked_at=None), replace(request, ref=OTHER)):
            with pytest.raises(Unauthorized):
                require_allowed(forged, people, now=now)
        with pytest.raises(Unauthorized, match="too long ago; ask again"):
            require_allowed(request, people, now=now + timedelta(hours=25))
    else:
        with pytest.raises(Unauthorized, match=f"{act} needs the role operator or approver"):
            require_allowed(request, people, now=now)
    require_allowed(made, [], now=now)


async def test_a_request_of_another_time_is_refused_to_anybody(office: Office) -> None:
    far = office.house.clock.now() + timedelta(days=365 * 7_000)
    request = ArmVenue(by="ann", asked_at=far, venue=VENUE, account="me", config=DIGEST, until=far + timedelta(hours=1))
    with pytest.raises(Unauthorized, match="after now; ask again"):
        await permit(office.parts, request)
    assert (await office.house.ledger.leave.standing({VENUE: "me"}, now=far)).arms == {}


async def test_the_same_request_to_arm_does_not_arm_again_what_was_disarmed_since(office: Office) -> None:
    request = office.request(ArmVenue)
    await permit(office.parts, request)
    assert await permit(office.parts, request) == "this was done before; lantern is armed"
    await office.ask(DisarmVenue, venue=VENUE)
    assert "this was done before; lantern was disarmed" in await permit(office.parts, request)
    assert await office.kinds() == ["disarm", "arm"]


async def test_halting_is_open_to_all_and_resuming_is_not(office: Office) -> None:
    await office.hire()
    assert await office.ask(Halt, "nobody", reason="prices look odd") == "halted everything: prices look odd"
    assert (office.house.path / "STOP").read_text() == "prices look odd (nobody)\n"
    with pytest.raises(Unauthorized):
        await office.ask(Resume, "vic")
    said_ = await office.ask(Resume, "oli")
    assert said_ == "everything resumed, 1 stop ended and the file STOP is taken away"
    assert not (office.house.path / "STOP").exists()
    assert await office.standing() == []
    assert await office.ask(Resume, "oli") == "everything was not stopped"


async def test_resuming_tells_of_a_stop_file_that_was_made_by_hand(office: Office) -> None:
    (office.house.path / "STOP").touch()
    await office.house.clock.advance(1)
    assert await office.ask(Resume) == "everything resumed, the file STOP is taken away"
    assert not (office.house.path / "STOP").exists()


async def test_nothing_is_resumed_while_the_audit_is_broken(house: House) -> None:
    office = Office(Shopfloor.of(house))
    await office.ask(Halt, reason="odd", venue=VENUE)
    await office.ask(Halt, reason="odder")
    tamper(house.path / "ledger.sqlite", "update audit set actor = 'bob' where seq = 1")
    parts = replace(office.parts, folder=house.path)
    for one in (parts, office.parts):
        for venue in (VENUE, None):
            with pytest.raises(Rejected, match="nothing is resumed while the audit is broken: row 1 was changed"):
                await permit(one, office.request(Resume, venue=venue))
    assert (house.path / "STOP").exists()
    assert len(await office.standing()) == 2
    tamper(house.path / "ledger.sqlite", "update audit set actor = 'ann' where seq = 1")
    (house.path / HEAD_FILE).write_bytes(b"{}")
    with pytest.raises(Rejected, match="holds no head of an audit"):
        await permit(parts, office.request(Resume))
    (house.path / HEAD_FILE).unlink()
    assert "2 stops ended" in await permit(parts, office.request(Resume))


async def test_one_venue_can_be_halted_by_itself(office: Office) -> None:
    await office.ask(Halt, reason="odd", venue=VENUE)
    assert not (office.house.path / "STOP").exists()
    assert [stop.venue for stop in await office.standing()] == [VENUE]
    await office.ask(Resume, venue=VENUE)
    assert await office.standing() == []
    with pytest.raises(NotFound, match="no venue torch"):
        await office.ask(Halt, reason="odd", venue="torch")


async def test_arming_takes_hold_and_disarming_ends_it(office: Office) -> None:
    said_ = await office.ask(ArmVenue)
    assert "lantern armed until" in said_
    assert "order=5 day=10 total=20" in said_
    arm = (await office.house.ledger.leave.standing({VENUE: "me"}, now=office.house.clock.now())).arms[VENUE]
    assert (arm.by, arm.per_order, arm.per_day, arm.total) == ("ann", 5.0, 10.0, 20.0)
    assert await office.ask(DisarmVenue, venue=VENUE) == "lantern disarmed"
    assert await office.ask(DisarmVenue, venue=VENUE) == "lantern was not armed"
    assert await office.kinds() == ["disarm", "disarm", "arm"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"config": "another"}, "started with another configuration"),
        ({"account": "another"}, "started with another configuration"),
        ({"per_order": None}, "armed with --per-order, --per-day and --total"),
        ({"per_order": 11.0}, "must not be above"),
        ({"total": 9.0}, "must not be above"),
    ],
)
async def test_what_is_armed_must_make_sense(office: Office, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(Rejected, match=why):
        await office.ask(ArmVenue, **fields)


@pytest.mark.parametrize("hours", [0, -1, 24 * 121])
async def test_an_arm_record_ends_some_time_from_now(office: Office, hours: int) -> None:
    with pytest.raises(Rejected, match="within 120 days"):
        await office.ask(ArmVenue, until=office.house.clock.now() + timedelta(hours=hours))


@pytest.mark.parametrize("amount", [0.0, -1.0, float("inf"), float("nan")])
def test_an_amount_is_a_number_above_nothing(house: House, amount: float) -> None:
    with pytest.raises(ValueError, match="no amount that may be spent"):
        Office(Shopfloor.of(house)).request(ArmVenue, total=amount)


async def test_a_venue_on_paper_is_not_armed_and_one_where_nothing_is_paid_has_no_amounts(office: Office) -> None:
    office.floor.bound(Mode.PAPER)
    with pytest.raises(Rejected, match="mode paper"):
        await office.ask(ArmVenue)
    office.floor.bound(Mode.LIVE)
    free = replace(office.parts, trading=frozenset())
    with pytest.raises(Rejected, match="without amounts"):
        await permit(free, office.request(ArmVenue))
    bare = office.request(ArmVenue, per_order=None, per_day=None, total=None)
    assert "armed until" in await permit(free, bare)


async def test_an_answer_names_who_gave_it_and_holds_for_a_time(office: Office) -> None:
    office.floor.bound(Mode.APPROVE)
    await office.floor.arm()
    await office.floor.forecast("rain")
    await office.floor.submit()
    [asked] = await office.house.ledger.leave.approvals()
    assert await office.ask(AnswerApproval, approval=asked.id[:6], approved=True) == f"{asked.id} approved by ann"
    [found] = await office.house.ledger.leave.approvals(everything=True)
    assert (found.state, found.by) == (ApprovalState.APPROVED, "ann")
    with pytest.raises(Rejected, match="approved already"):
        await office.ask(AnswerApproval, approval=asked.id, approved=False)


def attending(office: Office, *, permitting: bool = True) -> Attending:
    house = office.house
    return Attending(
        folder=house.path,
        ledger=house.ledger,
        clock=house.clock,
        permitting=office.parts if permitting else None,
    )


async def test_the_daemon_does_what_a_request_file_asks_and_tells(office: Office) -> None:
    await office.hire()
    path = ask(office.house.path, office.request(ArmVenue), at=office.house.clock.now())
    assert "token of" not in path.read_text()
    assert await attend(attending(office)) == "1 requests done"
    [note] = await office.house.ledger.journal.recent(1, "request")
    assert note.text.startswith("lantern armed until")


async def test_the_daemon_refuses_a_forged_request_file(office: Office, house: House) -> None:
    await office.hire()
    path = ask(house.path, replace(office.request(ArmVenue), proof=""), at=house.clock.now())
    assert await attend(attending(office)) == "0 requests done, 1 refused"
    assert (house.path / FOLDER / REFUSED / path.name).exists()
    assert "arm" not in await office.kinds()


async def test_where_no_leave_is_given_the_request_is_put_aside(office: Office, house: House) -> None:
    ask(house.path, office.request(Halt, reason="odd"), at=house.clock.now())
    assert await attend(attending(office, permitting=False)) == "0 requests done, 1 refused"


def test_keys_are_in_no_text_about_a_request(house: House, tmp_path: Path) -> None:
    office = Office(Shopfloor.of(house))
    add = office.request(AddPrincipal, name="new", role=Role.VIEWER, salt="aa" * 16, hash="bb" * 32)
    assert "bb" * 32 not in repr(add)
    assert "proof" not in repr(add)
