"""The tables of what leaves: orders and their fills, leave to submit, the chain of the audit, and rates.

Cash is in the currency of the venue. The audit is append-only and each row holds the hash of the one before it. What a
person may do is decided by the hash of a token, never by the token.
"""

_INTENTS = (
    "alter table intent add column order_body text",
    "alter table intent add column said text not null default ''",
    "alter table intent add column currency text not null default ''",
    "alter table intent add column cost real not null default 0 check (cost >= 0)",
    "alter table intent add column event text not null default ''",
    "alter table intent add column creator text not null default ''",
    "alter table intent add column category text not null default ''",
    "alter table attempt add column tag text not null default ''",
    "alter table attempt add column request text references document (digest)",
    "alter table attempt add column fence_at text",
    "alter table decision add column market text references document (digest)",
    "create index intent_by_lane on intent (venue, account, planned_at)",
    "create index attempt_by_tag on attempt (tag) where tag <> ''",
    # A comment goes beside what it comments on.
    "drop index intent_open",
    """
create unique index intent_open on intent (ref, account, action = 'comment')
  where state in ('planned', 'ready', 'sending', 'unknown', 'absent', 'in doubt')
""",
    """
create table fill (
  intent text not null references intent (id),
  reference text not null,
  at text not null,
  shares real not null check (shares > 0),
  price real not null check (price between 0 and 1),
  fee real not null check (fee >= 0),
  cash real not null,
  primary key (intent, reference)
) strict, without rowid
""",
)

_LEAVE = (
    """
create table arm (
  id text primary key,
  venue text not null,
  account text not null,
  config text not null,
  by text not null,
  armed_at text not null,
  until text not null,
  per_order real check (per_order >= 0),
  per_day real check (per_day >= 0),
  total real check (total >= 0),
  disarmed_at text
) strict
""",
    "create index arm_by_venue on arm (venue, account, until)",
    """
create table approval (
  id text primary key,
  forecast text not null unique references forecast (id),
  venue text not null,
  cost real not null check (cost >= 0),
  state text not null check (state in ('asked', 'approved', 'rejected', 'expired', 'used')),
  asked_at text not null,
  expires_at text not null,
  answered_at text,
  by text not null default '',
  shown text not null
) strict
""",
    "create index approval_by_state on approval (state, expires_at)",
    # A venue that stopped itself, or was stopped, until a person resumes it; '' is every venue.
    """
create table stop (
  id integer primary key,
  venue text not null,
  at text not null,
  why text not null,
  by text not null,
  resumed_at text,
  resumed_by text
) strict
""",
    "create index stop_standing on stop (venue) where resumed_at is null",
    """
create table principal (
  name text primary key,
  role text not null check (role in ('viewer', 'operator', 'approver')),
  salt text not null,
  hash text not null,
  made_at text not null,
  revoked_at text
) strict
""",
)

_READINGS = (
    """
create table reading (
  id integer primary key,
  venue text not null,
  account text not null,
  at text not null,
  currency text not null,
  cash real not null,
  equity real not null,
  body text not null
) strict
""",
    "create index reading_by_account on reading (venue, account, at)",
    """
create table rate (
  name text primary key,
  free_at text not null,
  body text not null
) strict
""",
)

_AUDIT = (
    """
create table audit (
  seq integer primary key check (seq >= 1),
  at text not null,
  kind text not null,
  venue text not null,
  actor text not null,
  body text not null,
  previous text not null check (length(previous) = 64),
  hash text not null unique check (length(hash) = 64)
) strict
""",
    """
create trigger audit_is_not_changed before update on audit
begin
  select raise(abort, 'the audit is append-only');
end
""",
    """
create trigger audit_is_not_shortened before delete on audit
begin
  select raise(abort, 'the audit is append-only');
end
""",
)

STATEMENTS: tuple[str, ...] = (*_INTENTS, *_LEAVE, *_READINGS, *_AUDIT)

ENDS_OF_STOPS: tuple[str, ...] = (
    "alter table stop add column ends text not null default 'person' check (ends in ('person', 'settled', 'renewed'))",
    # A digest of the credentials that were refused.
    "alter table stop add column credentials text not null default ''",
)
