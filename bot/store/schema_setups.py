"""How the forecaster of each forecast was configured; forecasts from before this do not say."""

STATEMENTS: tuple[str, ...] = ("alter table forecast add column setup text references document (digest)",)
