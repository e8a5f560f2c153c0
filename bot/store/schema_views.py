"""The views of the first tables: what is newest of each forecast and outcome, and every score with its context."""

STATEMENTS: tuple[str, ...] = (
    """
create view latest_forecast as
select f.* from forecast f
where f.state = 'done' and not exists (
  select 1 from forecast later
  where later.ref = f.ref and later.forecaster = f.forecaster and later.revision > f.revision and later.state = 'done')
""",
    """
create view current_resolution as
select r.* from resolution r
where not exists (
  select 1 from resolution later where later.ref = r.ref and later.target = r.target and later.id > r.id)
""",
    """
create view scored as
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
)

# A forecast that a person only wanted to see is apart: nothing leaves or waits for it.
APART: tuple[str, ...] = (
    "alter table forecast add column apart integer not null default 0 check (apart in (0, 1))",
    "alter table schedule add column apart integer not null default 0 check (apart in (0, 1))",
    "drop view latest_forecast",
    """
create view latest_forecast as
select f.* from forecast f
where f.state = 'done' and f.apart = 0 and not exists (
  select 1 from forecast later
  where later.ref = f.ref and later.forecaster = f.forecaster and later.revision > f.revision
    and later.state = 'done' and later.apart = 0)
""",
)
