"""What must hold in every ledger at every moment, also right after a kill: queries that return no row."""

from dataclasses import dataclass

from bot.store.schema_lanes import SETTLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """A named query; each row it returns is a fault, and ``meaning`` says what is wrong with it."""

    name: str
    sql: str
    meaning: str


_QUESTIONS = (
    Invariant(
        name="question_has_its_version",
        sql="""
select ref, version from question q
where not exists (select 1 from question_version v where v.version = q.version and v.ref = q.ref)
""",
        meaning="a question whose current version is not on record",
    ),
    Invariant(
        name="version_has_targets",
        sql="select version from question_version where version not in (select version from target)",
        meaning="a version of a question without any target",
    ),
    Invariant(
        name="probability_is_one",
        sql="""
select 'prediction', forecast, probability from prediction
where not coalesce(probability, 0) between 0 and 1 or not coalesce(raw_probability, 0) between 0 and 1
union all select 'price', id, probability from price where not coalesce(probability, 0) between 0 and 1
""",
        meaning="a probability outside [0, 1]",
    ),
)

_JSON_COLUMNS = (
    ("question_version", "body"),
    ("price", "body"),
    ("prediction", "body"),
    ("prediction", "raw_body"),
    ("trial", "body"),
    ("step", "body"),
    ("intent", "predictions"),
    ("intent", "order_body"),
    ("resolution", "body"),
    ("fitted", "provenance"),
)
# No check of a table can do this: SQLite before 3.42 trusts no JSON function in a schema.
_JSON = Invariant(
    name="json_is_json",
    sql="union all ".join(
        f"select '{table}.{column}', {column} from {table} where {column} is not null and not json_valid({column}) "  # noqa: S608 - constants
        for table, column in _JSON_COLUMNS
    ),
    meaning="text that should be JSON and is not",
)

_FORECASTS = (
    Invariant(
        name="forecast_is_complete",
        sql="""
select f.id, t.target from forecast f join target t on t.version = f.version
where f.state = 'done'
  and not exists (select 1 from prediction p where p.forecast = f.id and p.target = t.target)
""",
        meaning="a completed forecast without a prediction for one of its targets",
    ),
    Invariant(
        name="prediction_has_a_target",
        sql="""
select p.forecast, p.target from prediction p join forecast f on f.id = p.forecast
where f.state <> 'done' or p.ref <> f.ref
  or not exists (select 1 from target t where t.version = f.version and t.target = p.target)
""",
        meaning="a prediction of an unknown target, or of a forecast that was not completed",
    ),
    Invariant(
        name="forecast_is_not_doubled",
        sql="""
select ref, forecaster, revision from forecast
where state = 'done' group by ref, forecaster, revision having count(*) > 1
""",
        meaning="the same revision completed twice",
    ),
    Invariant(
        name="revisions_have_no_gap",
        sql="""
select ref, forecaster from forecast group by ref, forecaster having min(revision) <> 1 or max(revision) <> count(*)
""",
        meaning="a revision of a forecast is missing",
    ),
    Invariant(
        name="cutoff_is_before_the_answer",
        sql="select id, cutoff, made_at from forecast where cutoff > made_at",
        meaning="a forecast that claims to know what came after it",
    ),
    Invariant(
        name="learned_before_the_cutoff",
        sql="""
select f.id, l.before, f.cutoff from forecast f join fitted l on l.digest in (f.fitted, f.calibration)
where l.before > f.cutoff
""",
        meaning="a forecast made, or calibrated, with parameters learned from after its cutoff",
    ),
    Invariant(
        name="steps_have_no_gap",
        sql="""
select forecast, trial from step group by forecast, trial having min(number) <> 1 or max(number) <> count(*)
""",
        meaning="a step of a trial is missing",
    ),
    Invariant(
        name="cited_documents_are_kept",
        sql="""
select s.forecast, d.value from step s, json_each(s.body, '$.observation.documents') d
where d.value not in (select digest from document)
""",
        meaning="a step rests on a document that is not in the ledger",
    ),
)

_SCHEDULE = (
    Invariant(
        name="lease_has_an_owner",
        sql="select ref, forecaster from schedule where (owner is null) <> (leased_until is null)",
        meaning="a lease without an owner, or an owner without a lease",
    ),
    Invariant(
        name="lease_has_an_attempt",
        sql="select ref, forecaster from schedule where owner is not null and attempt = 0",
        meaning="a question still leased after its forecast was completed",
    ),
    Invariant(
        name="answer_is_in_the_schedule",
        sql="""
select ref, forecaster from schedule s
where answered_at is not null and not exists (
  select 1 from forecast f where f.ref = s.ref and f.forecaster = s.forecaster and f.state = 'done')
""",
        meaning="the schedule knows of a forecast that is not on record",
    ),
)

_SUBMISSIONS = (
    Invariant(
        name="intent_was_decided",
        sql="""
select id from intent i
where not exists (select 1 from decision d where d.intent = i.id and d.verdict = 'send' and d.forecast = i.forecast)
""",
        meaning="an intent that nobody decided to send",
    ),
    Invariant(
        name="intent_is_of_its_forecast",
        sql="""
select i.id from intent i join forecast f on f.id = i.forecast where f.state <> 'done' or f.ref <> i.ref
""",
        meaning="an intent of an unfinished forecast, or of another question's",
    ),
    Invariant(
        name="sent_intent_has_an_attempt",
        sql="""
select id, state from intent i
where state in ('sending', 'acked', 'refused', 'unknown', 'absent', 'in doubt')
  and not exists (select 1 from attempt a where a.intent = i.id)
""",
        meaning="an intent in a state that only an attempt leads to",
    ),
    Invariant(
        name="attempt_agrees_with_its_intent",
        sql="""
select i.id, i.state, a.state from intent i
join attempt a on a.intent = i.id and a.number = (select max(number) from attempt where intent = i.id)
where i.state in ('sending', 'acked', 'refused', 'unknown', 'in doubt') and a.state <> i.state
""",
        meaning="the last attempt and its intent say different things",
    ),
    Invariant(
        name="attempts_have_no_gap",
        sql="select intent from attempt group by intent having min(number) <> 1 or max(number) <> count(*)",
        meaning="an attempt is missing",
    ),
    Invariant(
        name="one_open_intent",
        sql="""
select ref, account, action = 'comment' from intent where state not in ('acked', 'refused', 'superseded')
group by ref, account, action = 'comment' having count(*) > 1
""",
        meaning="two intents of one question that may both still reach the venue",
    ),
    Invariant(
        name="decided_forecast_has_a_decision",
        sql="""
select id from forecast f
where (decided_at is not null) <> exists (select 1 from decision d where d.forecast = f.id)
""",
        meaning="a forecast marked as decided without a decision, or the other way round",
    ),
    Invariant(
        name="comment_follows_its_forecast",
        sql="""
select c.id from intent c
where c.action = 'comment' and exists (select 1 from attempt a where a.intent = c.id)
  and not exists (
    select 1 from intent i join attempt a on a.intent = i.id
    where i.forecast = c.forecast and i.account = c.account and i.action in ('forecast', 'order'))
""",
        meaning="a comment that was sent before what it belongs to",
    ),
    Invariant(
        name="order_has_its_terms",
        sql="select id, action from intent where (action = 'order') <> (order_body is not null)",
        meaning="an order that does not say what is bought, or something else that does",
    ),
    Invariant(
        name="request_has_its_tag",
        sql="select id, tag, request from attempt where (tag <> '') <> (request is not null)",
        meaning="a request that could not be found at the venue, or a tag without its request",
    ),
    Invariant(
        name="tag_is_of_one_intent",
        sql="""
select i.venue, i.account, a.tag from attempt a join intent i on i.id = a.intent
where a.tag <> '' group by i.venue, i.account, a.tag having count(distinct a.intent) > 1
""",
        meaning="two intents that would be taken for each other at the venue",
    ),
    Invariant(
        name="fill_is_of_an_acknowledged_order",
        sql="""
select f.intent, f.reference, i.action, i.state from fill f join intent i on i.id = f.intent
where i.action <> 'order' or i.state <> 'acked'
""",
        meaning="something was traded by an order that is not known to have arrived",
    ),
    Invariant(
        name="order_costs_its_fills",
        sql="""
select i.id, i.cost, -sum(f.cash) from intent i join fill f on f.intent = i.id
group by i.id having i.cost + 1e-6 < -sum(f.cash)
""",
        meaning="an order that took more than is counted for it",
    ),
    Invariant(
        name="order_is_settled_as_its_question_is",
        sql=f"""
select i.id, i.settled from intent i where i.action = 'order' and i.settled <> ({SETTLED.format(ref="i.ref")})
""",  # noqa: S608 - made of constants
        meaning="an order counted as at stake that is not, or one left out that is",
    ),
)

_OUTCOMES = (
    Invariant(
        name="scored_against_its_own_outcome",
        sql="""
select p.forecast, p.target, r.id from prediction p join resolution r on r.id = p.scored_against
where r.ref <> p.ref or r.target <> p.target
""",
        meaning="a prediction scored against the outcome of something else",
    ),
    Invariant(
        name="scored_against_the_outcome_in_force",
        sql="""
select p.forecast, p.target, r.id from prediction p
join current_resolution r on r.ref = p.ref and r.target = p.target
where p.scored_against <> r.id
""",
        meaning="a prediction taken for scored though its outcome was corrected",
    ),
    Invariant(
        name="score_is_of_its_prediction",
        sql="""
select s.forecast, s.target, s.rule from score s
join prediction p on p.forecast = s.forecast and p.target = s.target
join current_resolution r on r.id = s.resolution
where r.ref <> p.ref or r.target <> p.target or r.kind = 'void' or p.scored_against is not r.id
""",
        meaning="a score of something else, of a void outcome, or of a prediction not marked as scored",
    ),
)

_MODELS = (
    Invariant(
        name="exchange_is_kept",
        sql="""
select scope, trial, kind, key, nth from exchange where answer not in (select digest from document)
""",
        meaning="a trial was told something that is not in the ledger",
    ),
    Invariant(
        name="answered_call_has_its_answer",
        sql="""
select id, state from model_call c
where (state = 'done') <> exists (select 1 from document d where d.digest = c.answer)
""",
        meaning="a call that was answered without the answer, or the other way round",
    ),
    Invariant(
        name="settled_call_has_a_cost",
        sql="""
select id, state, cost_usd, worst_usd from model_call
where (state in ('done', 'failed')) <> (cost_usd is not null) or cost_usd < 0 or worst_usd < 0
""",
        meaning="a call that ended without a cost, one under way that has one, or a negative amount",
    ),
    Invariant(
        name="cached_tokens_were_read",
        sql="select id, tokens_cached, tokens_in from model_call where tokens_cached > tokens_in",
        meaning="a call that read more from a cache than it read at all",
    ),
    Invariant(
        name="call_is_of_its_question",
        sql="select c.id, c.ref, f.ref from model_call c join forecast f on f.id = c.scope where c.ref <> f.ref",
        meaning="a call charged to another question than its forecast is of",
    ),
)

INVARIANTS: tuple[Invariant, ...] = (_JSON, *_QUESTIONS, *_FORECASTS, *_SCHEDULE, *_SUBMISSIONS, *_OUTCOMES, *_MODELS)
