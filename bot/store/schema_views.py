"""The views and triggers of the ledger, and the SQL conditions that queries share with them."""

from bot.core.outcomes import WITHDRAWN_REASONS

# Compares the text of the stored JSON, because triggers must not need the JSON functions.
_HAS_WITHDRAWN_REASON = " or ".join(f"""instr(r.body, '"reason":"{reason}"')""" for reason in WITHDRAWN_REASONS)
# True for a row r of resolution that only withdraws an earlier outcome.
IS_WITHDRAWN = f"(r.kind = 'void' and ({_HAS_WITHDRAWN_REASON}))"
# A question is resolved when each of its targets has an outcome; an annulled target has one too.
IS_RESOLVED = f"""
exists (select 1 from question q join target t on t.version = q.version where q.ref = {{ref}})
and not exists (
  select 1 from question q join target t on t.version = q.version
  where q.ref = {{ref}} and not exists (
    select 1 from current_resolution r where r.ref = q.ref and r.target = t.target
      and not {IS_WITHDRAWN}))
"""  # noqa: S608 - made of constants
VIEWS: tuple[str, ...] = (
    # A forecast that a person only asked to see is never submitted.
    """create view latest_forecast as
select f.* from forecast f
where f.state = 'done' and f.forecast_only = 0 and not exists (
  select 1 from forecast later
  where later.ref = f.ref and later.forecaster = f.forecaster and later.revision > f.revision
    and later.state = 'done' and later.forecast_only = 0)
""",
    """create view current_resolution as
select r.* from resolution r
where not exists (
  select 1 from resolution later where later.ref = r.ref and later.target = r.target and later.id > r.id)
""",
    """create view scored as
select s.forecast, s.target, s.rule, s.value as score, f.ref, q.title, q.venue, q.source, q.family, q.batch,
       f.forecaster, f.revision, f.cutoff, f.made_at, t.horizon_days, p.probability, p.raw_probability,
       c.probability as crowd_probability, r.kind as outcome_kind, r.value as outcome, r.body as outcome_body,
       r.resolved_at
from score s
join current_resolution r on r.id = s.resolution
join prediction p on p.forecast = s.forecast and p.target = s.target
join forecast f on f.id = s.forecast
join question q on q.ref = f.ref
join target t on t.version = f.version and t.target = s.target
left join price c on c.id = f.price
""",
    # A call that is under way, or was lost, counts at its maximum cost.
    """create view cost as
select scope, ref, venue, forecaster, min(at) as first_at, count(*) as calls,
       sum(state in ('failed', 'lost')) as unanswered, sum(attempts) as attempts, sum(tokens_in) as tokens_in,
       sum(tokens_cached) as tokens_cached, sum(tokens_out) as tokens_out,
       sum(coalesce(cost_usd, worst_usd)) as cost_usd
from model_call
group by scope, ref, venue, forecaster
""",
)
# Each order has a column that says whether its question is resolved, because few of many thousand orders are open.
_RESOLVED_TRIGGER = """
create trigger {name} after {event}
begin
  update intent set question_resolved = ({resolved}) where ref = new.ref and action = 'order';
end
"""
_AUDIT_TRIGGER = """
create trigger {name} before {event} on audit
begin
  select raise(abort, 'the audit is append-only');
end
"""
_COUNTED = "insert into tally (name, count) values ('{name}', 1) on conflict do update set count = count + 1"
_INTENT_COUNTED = """
insert into intent_tally (venue, paper, state, count) values (new.venue, new.mode = 'paper', new.state, 1)
on conflict do update set count = count + 1
"""
_TALLY_TRIGGERS = (
    f"create trigger question_is_counted after insert on question begin {_COUNTED.format(name='questions')}; end",
    f"""create trigger forecast_is_counted after update of state on forecast
when new.state = 'done' and old.state <> 'done' begin {_COUNTED.format(name="forecasts")}; end""",
    f"create trigger intent_is_counted after insert on intent begin {_INTENT_COUNTED}; end",
    f"""create trigger intent_is_counted_again after update of state on intent when new.state <> old.state
begin
  update intent_tally set count = count - 1
  where venue = old.venue and paper = (old.mode = 'paper') and state = old.state;
  {_INTENT_COUNTED};
end""",  # noqa: S608 - made of constants
)
TRIGGERS: tuple[str, ...] = (
    *_TALLY_TRIGGERS,
    *(
        _RESOLVED_TRIGGER.format(name=name, event=event, resolved=IS_RESOLVED.format(ref="new.ref"))
        for name, event in {
            "intent_resolved_by_outcome": "insert on resolution",
            "intent_resolved_when_planned": "insert on intent when new.action = 'order'",
            "intent_resolved_by_target": "insert on target",
            "intent_resolved_by_version": "update of version on question when new.version <> old.version",
        }.items()
    ),
    *(
        _AUDIT_TRIGGER.format(name=name, event=event)
        for name, event in {"audit_is_not_changed": "update", "audit_is_not_shortened": "delete"}.items()
    ),
)
# Each question has a column that says whether it is resolved, and so has each order: few of many are open.
_SET_RESOLVED = f"update question set resolved = ({IS_RESOLVED.format(ref='new.ref')}) where ref = new.ref"  # noqa: S608 - constants
_HAS_RESOLUTION = "exists (select 1 from resolution where ref = new.ref)"
RESOLVED_TRIGGERS: tuple[str, ...] = (
    f"create trigger question_resolved_by_outcome after insert on resolution begin {_SET_RESOLVED}; end",
    f"""create trigger question_resolved_by_target after insert on target when {_HAS_RESOLUTION}
begin {_SET_RESOLVED}; end""",
    f"""create trigger question_resolved_by_version after update of version on question
when new.version <> old.version and {_HAS_RESOLUTION} begin {_SET_RESOLVED}; end""",
    """create trigger intent_resolved_with_question after update of resolved on question
when new.resolved <> old.resolved
begin
  update intent set question_resolved = new.resolved where ref = new.ref and action = 'order';
end""",
    """create trigger intent_resolved_when_planned after insert on intent
when new.action = 'order' and exists (select 1 from question where ref = new.ref and resolved = 1)
begin
  update intent set question_resolved = 1 where seq = new.seq;
end""",
)
REPLACED_TRIGGERS = (
    "intent_resolved_by_outcome",
    "intent_resolved_when_planned",
    "intent_resolved_by_target",
    "intent_resolved_by_version",
)
