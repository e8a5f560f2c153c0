"""Paper and live told apart where accounts are read, and what is at stake counted from indexes alone.

Of a reading from before this it is said what the orders of its account say: paper, where none went live.
"""

from bot.domain.resolution import TAKEN_BACK

# As the codec writes them: functions of JSON are not for triggers.
_TAKEN_BACK = " or ".join(f"""instr(r.body, '"reason":"{reason}"')""" for reason in TAKEN_BACK)
# Says of a row r of the outcomes that it only takes another one back.
IS_TAKEN_BACK = f"(r.kind = 'void' and ({_TAKEN_BACK}))"
# A question has its outcome when each of its targets has one, annulled ones too.
SETTLED = f"""
exists (select 1 from question q join target t on t.version = q.version where q.ref = {{ref}})
and not exists (
  select 1 from question q join target t on t.version = q.version
  where q.ref = {{ref}} and not exists (
    select 1 from current_resolution r where r.ref = q.ref and r.target = t.target
      and not {IS_TAKEN_BACK}))
"""  # noqa: S608 - made of constants
_KEPT = """
create trigger {name} after {event}
begin
  update intent set settled = ({settled}) where ref = new.ref and action = 'order';
end
"""
_TRIGGERS = tuple(
    _KEPT.format(name=name, event=event, settled=SETTLED.format(ref="new.ref"))
    for name, event in {
        "intent_is_settled_by_its_outcome": "insert on resolution",
        "intent_is_settled_as_its_question_is": "insert on intent when new.action = 'order'",
        "intent_is_settled_for_each_target": "insert on target",
        "intent_is_settled_for_the_version": "update of version on question when new.version <> old.version",
    }.items()
)

STATEMENTS: tuple[str, ...] = (
    "alter table reading add column paper integer not null default 1 check (paper in (0, 1))",
    """
update reading set paper = not exists (
  select 1 from intent i
  where i.venue = reading.venue and i.account = reading.account and i.mode <> 'paper' and i.order_body is not null)
""",
    "drop index reading_by_account",
    "create index reading_by_account on reading (venue, account, paper, at, equity)",
    # Whether the question of an order has its outcome, kept with the order: of ten thousand orders few are open.
    "alter table intent add column settled integer not null default 0 check (settled in (0, 1))",
    f"update intent set settled = 1 where action = 'order' and {SETTLED.format(ref='intent.ref')}",  # noqa: S608 - constants
    *_TRIGGERS,
    # In the order of its questions, and with all that is added up: the rows with the orders' texts are not touched.
    """
create index intent_at_stake
  on intent (venue, account, action, settled, ref, mode, state, cost, event, creator, category)
  where action = 'order' and settled = 0
""",
    """
create index intent_waiting on intent (venue, account, state, mode, cost)
  where state in ('planned', 'ready', 'sending', 'unknown', 'absent')
""",
    """
create index intent_with_fee on intent (venue, account, action, ref, mode, state, cost, event, creator, category)
  where action = 'comment' and cost > 0
""",
    "create index attempt_by_start on attempt (started_at)",
    "create index fill_sold on fill (intent) where cash > 0",
)
