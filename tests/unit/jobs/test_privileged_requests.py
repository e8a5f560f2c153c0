from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.core.errors import AuthenticationError, NotFoundError, RequestRejectedError
from bot.core.operator_requests import (
    AddPrincipal,
    AdoptIntent,
    AnswerApproval,
    ArmVenue,
    DisarmVenue,
    ForecastQuestion,
    HaltSubmissions,
    PrivilegedRequest,
    ResumeSubmissions,
    RevokePrincipal,
    UnlockQuestion,
    WithdrawForecast,
)
from bot.core.permissions import ApprovalState, UserRole
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode
from bot.execution.gate.access_control import PrivilegedAction, hash_token, make_request_proof
from bot.jobs.operator_requests import OperatorRequestContext, handle_requests
from bot.jobs.privileged_requests import (
    AdoptCallback,
    PrivilegedRequestContext,
    authorize_request,
    handle_privileged_request,
    requested_action,
)
from bot.store import permissions
from bot.store.audit_log import AUDIT_HEAD_FILE, AuditRow
from bot.store.requests import REFUSED_FOLDER, REQUEST_FOLDER, request_text, send_request
from tests.unit.execution.gate.test_access_control import ALLOWED
from tests.unit.jobs.conftest import VENUE, JobsFixture
from tests.unit.jobs.trading_fixture import DIGEST, TradingFixture
from tests.unit.store.test_audit_log import tamper

OTHER = QuestionRef(VENUE, "snow")
TOKENS = {"ann": UserRole.APPROVER, "oli": UserRole.OPERATOR, "vic": UserRole.VIEWER}
KEYS = {name: hash_token(f"token of {name}", "00" * 16) for name in TOKENS}


class SignedRequestFixture:
    """Asks, in the name of somebody, with the proof that their token makes."""

    def __init__(self, trading_fixture: TradingFixture) -> None:
        self.trading_fixture, self.jobs_fixture = trading_fixture, trading_fixture.jobs_fixture
        self.adopt: AdoptCallback | None = None
        self.still_refused: list[Collection[str]] = []
        trading_fixture.bound(ExecutionMode.LIVE)

    @property
    def parts(self) -> PrivilegedRequestContext:
        return PrivilegedRequestContext(
            ledger=self.jobs_fixture.ledger,
            clock=self.jobs_fixture.clock,
            stop_file=self.jobs_fixture.path / "STOP",
            execution_policies={VENUE: self.trading_fixture.execution_policy},
            trading_venues=frozenset({VENUE}),
            adopt=self.adopt,
            on_resume=self.note_resume,
        )

    def note_resume(self, _: str | None, refused: Collection[str]) -> None:
        self.still_refused.append(refused)
        self.trading_fixture.readiness.mark_outdated()

    async def ask(self, kind: type[Any], by: str = "ann", **fields: Any) -> str:
        return await handle_privileged_request(self.parts, self.request(kind, by, **fields))

    def request(self, kind: type[Any], by: str = "ann", **fields: Any) -> PrivilegedRequest:
        now = self.jobs_fixture.clock.now()
        if kind is ArmVenue:
            given = {"venue": VENUE, "account": "me", "config": DIGEST, "until": now + timedelta(hours=24)}
            fields = given | {"per_order": 5.0, "per_day": 10.0, "total": 20.0} | fields
        request: PrivilegedRequest = kind(by=by, asked_at=now, **fields)
        return (
            replace(request, proof=make_request_proof(KEYS[by].hash, request_text(request))) if by in KEYS else request
        )

    async def hire(self) -> None:
        for name, role in TOKENS.items():
            await self.ask(AddPrincipal, name=name, role=role, salt=KEYS[name].salt, hash=KEYS[name].hash)

    async def standing(self) -> list[permissions.SubmissionHalt]:
        return await self.jobs_fixture.ledger.permissions.read(permissions.list_active_halts)

    async def kinds(self) -> list[str]:
        return [row.kind for row in await self.jobs_fixture.ledger.permissions.recent_audit_rows(limit=9)]


@pytest.fixture
async def office(jobs_fixture: JobsFixture) -> AsyncIterator[SignedRequestFixture]:
    office = SignedRequestFixture(TradingFixture.of(jobs_fixture))
    yield office
    assert (await jobs_fixture.ledger.permissions.verify()).sound


REQUESTS: dict[PrivilegedAction, tuple[type[Any], dict[str, Any]]] = {
    PrivilegedAction.ARM: (ArmVenue, {}),
    PrivilegedAction.DISARM: (DisarmVenue, {"venue": VENUE}),
    PrivilegedAction.HALT: (HaltSubmissions, {"reason": "odd"}),
    PrivilegedAction.RESUME: (ResumeSubmissions, {}),
    PrivilegedAction.APPROVE: (AnswerApproval, {"approval": "there is none", "approved": True}),
    PrivilegedAction.REJECT: (AnswerApproval, {"approval": "there is none", "approved": False}),
    PrivilegedAction.ADD_PRINCIPAL: (
        AddPrincipal,
        {"name": "new", "role": UserRole.VIEWER, "salt": "00" * 16, "hash": "11" * 32},
    ),
    PrivilegedAction.REVOKE_PRINCIPAL: (RevokePrincipal, {"name": "vic"}),
    PrivilegedAction.ADOPT: (AdoptIntent, {"intent": "there is none", "absent": True}),
    PrivilegedAction.WITHDRAW: (WithdrawForecast, {"ref": OTHER}),
}


@pytest.mark.parametrize("act", REQUESTS)
@pytest.mark.parametrize("by", [*TOKENS, "nobody"])
async def test_each_person_is_let_do_what_their_role_allows_and_nothing_else(
    office: SignedRequestFixture, by: str, act: PrivilegedAction
) -> None:
    await office.hire()
    kind, fields = REQUESTS[act]
    request = office.request(kind, by, **fields)
    assert requested_action(request) is act
    before = await office.jobs_fixture.ledger.permissions.head()
    if act not in ALLOWED[TOKENS.get(by)]:
        with pytest.raises(AuthenticationError, match=f"{act} needs the role"):
            await handle_privileged_request(office.parts, request)
        assert await office.jobs_fixture.ledger.permissions.head() == before
    elif kind in {AnswerApproval, AdoptIntent}:
        with pytest.raises(NotFoundError):
            await handle_privileged_request(office.parts, request)
    elif kind is WithdrawForecast:
        with pytest.raises(RequestRejectedError, match="no forecasts that can be withdrawn"):
            await handle_privileged_request(office.parts, request)
    else:
        await handle_privileged_request(office.parts, request)
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
async def test_a_request_that_was_forged_or_changed_is_refused(office: SignedRequestFixture, forge: Any) -> None:
    await office.hire()
    with pytest.raises(AuthenticationError):
        await handle_privileged_request(office.parts, forge(office.request(ArmVenue)))


async def test_a_request_of_long_ago_is_refused(office: SignedRequestFixture) -> None:
    await office.hire()
    request = office.request(ResumeSubmissions)
    await office.jobs_fixture.clock.advance(16 * 60)
    with pytest.raises(AuthenticationError, match="too long ago; ask again"):
        await handle_privileged_request(office.parts, request)


@pytest.mark.parametrize("hours", [-2, 1, 48])
async def test_a_request_that_takes_permission_away_holds_at_any_age(office: SignedRequestFixture, hours: int) -> None:
    await office.hire()
    now = office.jobs_fixture.clock.now()
    await handle_privileged_request(office.parts, office.request(ArmVenue))
    asked = DisarmVenue(by="oli", asked_at=now - timedelta(hours=hours), venue=VENUE)
    # It waited while no daemon ran, or the clock was set meanwhile.
    signed = replace(asked, proof=make_request_proof(KEYS["oli"].hash, request_text(asked)))
    assert await handle_privileged_request(office.parts, signed) == f"{VENUE} disarmed"
    with pytest.raises(AuthenticationError):
        await handle_privileged_request(office.parts, replace(signed, venue="other"))


@pytest.mark.parametrize("act", [PrivilegedAction.UNLOCK, PrivilegedAction.FORECAST])
@pytest.mark.parametrize("by", [*TOKENS, "nobody"])
async def test_who_takes_locks_off_or_has_models_asked_needs_a_role(
    office: SignedRequestFixture, by: str, act: PrivilegedAction
) -> None:
    known = [*TOKENS.items()]
    await office.hire()
    ref, now = QuestionRef(VENUE, "rain"), office.jobs_fixture.clock.now()
    made: UnlockQuestion | ForecastQuestion = UnlockQuestion(ref=ref, by=by, asked_at=now)
    if act is PrivilegedAction.FORECAST:
        made = ForecastQuestion(ref=ref, forecaster="first", by=by, asked_at=now)
    request = replace(made, proof=make_request_proof(KEYS[by].hash, request_text(made))) if by in KEYS else made
    people = await office.jobs_fixture.ledger.permissions.principals()
    assert [(one.name, one.role) for one in people] == known
    if act in ALLOWED[TOKENS.get(by)]:
        authorize_request(request, people, now=now)
        for forged in (replace(request, by=""), replace(request, asked_at=None), replace(request, ref=OTHER)):
            with pytest.raises(AuthenticationError):
                authorize_request(forged, people, now=now)
        with pytest.raises(AuthenticationError, match="too long ago; ask again"):
            authorize_request(request, people, now=now + timedelta(hours=25))
    else:
        with pytest.raises(AuthenticationError, match=f"{act} needs the role operator or approver"):
            authorize_request(request, people, now=now)
    authorize_request(made, [], now=now)


async def test_a_request_of_another_time_is_refused_to_anybody(office: SignedRequestFixture) -> None:
    far = office.jobs_fixture.clock.now() + timedelta(days=365 * 7_000)
    request = ArmVenue(by="ann", asked_at=far, venue=VENUE, account="me", config=DIGEST, until=far + timedelta(hours=1))
    with pytest.raises(AuthenticationError, match="in the future; ask again"):
        await handle_privileged_request(office.parts, request)
    assert (await office.jobs_fixture.ledger.permissions.read_status({VENUE: "me"}, now=far)).arms == {}


async def test_the_same_request_to_arm_does_not_arm_again_what_was_disarmed_since(office: SignedRequestFixture) -> None:
    request = office.request(ArmVenue)
    await handle_privileged_request(office.parts, request)
    assert await handle_privileged_request(office.parts, request) == "this was done before; lantern is armed"
    await office.ask(DisarmVenue, venue=VENUE)
    assert "this was done before; lantern was disarmed" in await handle_privileged_request(office.parts, request)
    assert await office.kinds() == ["disarm", "arm"]


async def test_halting_is_open_to_all_and_resuming_is_not(office: SignedRequestFixture) -> None:
    await office.hire()
    assert await office.ask(HaltSubmissions, "nobody", reason="prices look odd") == "halted everything: prices look odd"
    assert (office.jobs_fixture.path / "STOP").read_text() == "prices look odd (nobody)\n"
    with pytest.raises(AuthenticationError):
        await office.ask(ResumeSubmissions, "vic")
    said_ = await office.ask(ResumeSubmissions, "oli")
    assert said_ == "everything resumed, 1 halt ended and the file STOP is removed"
    assert not (office.jobs_fixture.path / "STOP").exists()
    assert await office.standing() == []
    assert await office.ask(ResumeSubmissions, "oli") == "everything was not halted"


async def test_resuming_tells_of_a_stop_file_that_was_made_by_hand(office: SignedRequestFixture) -> None:
    (office.jobs_fixture.path / "STOP").touch()
    await office.jobs_fixture.clock.advance(1)
    assert await office.ask(ResumeSubmissions) == "everything resumed, the file STOP is removed"
    assert not (office.jobs_fixture.path / "STOP").exists()


@pytest.mark.parametrize(("later_s", "refused"), [(-1, set()), (1, {VENUE})])
@pytest.mark.parametrize("venue", [None, VENUE])
async def test_credentials_that_were_refused_after_a_resume_was_asked_for_stay_refused(
    office: SignedRequestFixture, later_s: int, refused: set[str], venue: str | None
) -> None:
    halt = permissions.SubmissionHalt(
        venue=VENUE,
        at=office.jobs_fixture.clock.now() + timedelta(seconds=later_s),
        why="the credentials were refused",
        end_condition=permissions.HaltEndCondition.RENEWED,
    )
    row = AuditRow(at=halt.at, kind="stop", venue=VENUE, actor="", body={})
    await office.jobs_fixture.ledger.permissions.write_with_audit(
        lambda database: permissions.add_halt(database, halt), row
    )
    await office.ask(ResumeSubmissions, venue=venue)
    assert office.still_refused == [refused]


async def test_nothing_is_resumed_while_the_audit_is_broken(jobs_fixture: JobsFixture) -> None:
    office = SignedRequestFixture(TradingFixture.of(jobs_fixture))
    await office.ask(HaltSubmissions, reason="odd", venue=VENUE)
    await office.ask(HaltSubmissions, reason="odder")
    tamper(jobs_fixture.path / "ledger.sqlite", "update audit set actor = 'bob' where seq = 1")
    parts = replace(office.parts, folder=jobs_fixture.path)
    for one in (parts, office.parts):
        for venue in (VENUE, None):
            with pytest.raises(
                RequestRejectedError, match="nothing is resumed while the audit is broken: row 1 was changed"
            ):
                await handle_privileged_request(one, office.request(ResumeSubmissions, venue=venue))
    assert (jobs_fixture.path / "STOP").exists()
    assert len(await office.standing()) == 2
    tamper(jobs_fixture.path / "ledger.sqlite", "update audit set actor = 'ann' where seq = 1")
    (jobs_fixture.path / AUDIT_HEAD_FILE).write_bytes(b"{}")
    with pytest.raises(RequestRejectedError, match="is not an exported head of the audit log"):
        await handle_privileged_request(parts, office.request(ResumeSubmissions))
    (jobs_fixture.path / AUDIT_HEAD_FILE).unlink()
    assert "2 halts ended" in await handle_privileged_request(parts, office.request(ResumeSubmissions))


async def test_one_venue_can_be_halted_by_itself(office: SignedRequestFixture) -> None:
    await office.ask(HaltSubmissions, reason="odd", venue=VENUE)
    assert not (office.jobs_fixture.path / "STOP").exists()
    assert [stop.venue for stop in await office.standing()] == [VENUE]
    await office.ask(ResumeSubmissions, venue=VENUE)
    assert await office.standing() == []
    with pytest.raises(NotFoundError, match="venue torch is not in use"):
        await office.ask(HaltSubmissions, reason="odd", venue="torch")


async def test_arming_takes_hold_and_disarming_ends_it(office: SignedRequestFixture) -> None:
    said_ = await office.ask(ArmVenue)
    assert "lantern armed until" in said_
    assert "order=5 day=10 total=20" in said_
    arm = (
        await office.jobs_fixture.ledger.permissions.read_status({VENUE: "me"}, now=office.jobs_fixture.clock.now())
    ).arms[VENUE]
    assert (arm.by, arm.per_order, arm.per_day, arm.total) == ("ann", 5.0, 10.0, 20.0)
    assert await office.ask(DisarmVenue, venue=VENUE) == "lantern disarmed"
    assert await office.ask(DisarmVenue, venue=VENUE) == "lantern was not armed"
    assert await office.kinds() == ["disarm", "disarm", "arm"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"config": "another"}, "started with another configuration"),
        ({"account": "another"}, "started with another configuration"),
        ({"per_order": None}, "arm it with --per-order, --per-day and --total"),
        ({"per_order": 11.0}, "must not be above"),
        ({"total": 9.0}, "must not be above"),
    ],
)
async def test_what_is_armed_must_make_sense(office: SignedRequestFixture, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(RequestRejectedError, match=why):
        await office.ask(ArmVenue, **fields)


@pytest.mark.parametrize("hours", [0, -1, 24 * 121])
async def test_an_arm_record_ends_some_time_from_now(office: SignedRequestFixture, hours: int) -> None:
    with pytest.raises(RequestRejectedError, match="within 120 days"):
        await office.ask(ArmVenue, until=office.jobs_fixture.clock.now() + timedelta(hours=hours))


@pytest.mark.parametrize("amount", [0.0, -1.0, float("inf"), float("nan")])
def test_an_amount_is_a_number_above_nothing(jobs_fixture: JobsFixture, amount: float) -> None:
    with pytest.raises(ValueError, match="not a valid amount"):
        SignedRequestFixture(TradingFixture.of(jobs_fixture)).request(ArmVenue, total=amount)


async def test_a_venue_on_paper_is_not_armed_and_one_where_nothing_is_paid_has_no_amounts(
    office: SignedRequestFixture,
) -> None:
    office.trading_fixture.bound(ExecutionMode.PAPER)
    with pytest.raises(RequestRejectedError, match="mode paper"):
        await office.ask(ArmVenue)
    office.trading_fixture.bound(ExecutionMode.LIVE)
    free = replace(office.parts, trading_venues=frozenset())
    with pytest.raises(RequestRejectedError, match="without amounts"):
        await handle_privileged_request(free, office.request(ArmVenue))
    bare = office.request(ArmVenue, per_order=None, per_day=None, total=None)
    assert "armed until" in await handle_privileged_request(free, bare)


async def test_an_answer_names_who_gave_it_and_holds_for_a_time(office: SignedRequestFixture) -> None:
    office.trading_fixture.bound(ExecutionMode.APPROVE)
    await office.trading_fixture.arm()
    await office.trading_fixture.forecast("rain")
    await office.trading_fixture.submit()
    [asked] = await office.jobs_fixture.ledger.permissions.approvals()
    await office.jobs_fixture.clock.advance(60)
    assert await office.ask(AnswerApproval, approval=asked.id[:6], approved=True) == f"{asked.id} approved by ann"
    [found] = await office.jobs_fixture.ledger.permissions.approvals(everything=True)
    assert (found.state, found.by) == (ApprovalState.APPROVED, "ann")
    lifetime = office.trading_fixture.execution_policy.approval_lifetime
    assert found.expires_at == office.jobs_fixture.clock.now() + lifetime
    with pytest.raises(RequestRejectedError, match="approved already"):
        await office.ask(AnswerApproval, approval=asked.id, approved=False)


def attending(office: SignedRequestFixture, *, permitting: bool = True) -> OperatorRequestContext:
    jobs_fixture = office.jobs_fixture
    return OperatorRequestContext(
        folder=jobs_fixture.path,
        ledger=jobs_fixture.ledger,
        clock=jobs_fixture.clock,
        privileged_requests=office.parts if permitting else None,
    )


async def test_the_daemon_does_what_a_request_file_asks_and_tells(office: SignedRequestFixture) -> None:
    await office.hire()
    path = send_request(office.jobs_fixture.path, office.request(ArmVenue), at=office.jobs_fixture.clock.now())
    assert "token of" not in path.read_text()
    assert await handle_requests(attending(office)) == "1 requests done"
    [note] = await office.jobs_fixture.ledger.events.recent(1, "request")
    assert note.text.startswith("lantern armed until")


async def test_the_daemon_refuses_a_forged_request_file(
    office: SignedRequestFixture, jobs_fixture: JobsFixture
) -> None:
    await office.hire()
    path = send_request(jobs_fixture.path, replace(office.request(ArmVenue), proof=""), at=jobs_fixture.clock.now())
    assert await handle_requests(attending(office)) == "0 requests done, 1 refused"
    assert (jobs_fixture.path / REQUEST_FOLDER / REFUSED_FOLDER / path.name).exists()
    assert "arm" not in await office.kinds()


async def test_where_no_leave_is_given_the_request_is_put_aside(
    office: SignedRequestFixture, jobs_fixture: JobsFixture
) -> None:
    send_request(jobs_fixture.path, office.request(HaltSubmissions, reason="odd"), at=jobs_fixture.clock.now())
    assert await handle_requests(attending(office, permitting=False)) == "0 requests done, 1 refused"


def test_keys_are_in_no_text_about_a_request(jobs_fixture: JobsFixture, tmp_path: Path) -> None:
    office = SignedRequestFixture(TradingFixture.of(jobs_fixture))
    add = office.request(AddPrincipal, name="new", role=UserRole.VIEWER, salt="aa" * 16, hash="bb" * 32)
    assert "bb" * 32 not in repr(add)
    assert "proof" not in repr(add)
