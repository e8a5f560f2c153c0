"""What profit is worked out from beside fills: sums of accounts over time, and what shares pay since their outcome."""

STATEMENTS: tuple[str, ...] = (
    "alter table reading add column reserved real not null default 0",
    "alter table reading add column loan real not null default 0",
    # What decided positions pay that were not paid out yet, and what positions are worth that no order was about.
    "alter table reading add column owed real not null default 0",
    "alter table reading add column elsewhere real not null default 0",
    # Read again until then, with the same sums.
    "alter table reading add column until text not null default ''",
    "update reading set until = at",
    """
create table payout (
  venue text not null,
  account text not null,
  paper integer not null check (paper in (0, 1)),
  contract text not null,
  leg text not null check (leg in ('yes', 'no')),
  price real check (price between 0 and 1),
  at text not null,
  resolution integer not null references resolution (id),
  primary key (venue, account, paper, contract, leg)
) strict, without rowid
""",
    # What the venue itself says that was gained.
    """
create table venue_gain (
  venue text not null,
  account text not null,
  contract text not null,
  gain real not null,
  closed integer not null check (closed in (0, 1)),
  before_fees integer not null check (before_fees in (0, 1)),
  at text not null,
  primary key (venue, account, contract)
) strict, without rowid
""",
)
