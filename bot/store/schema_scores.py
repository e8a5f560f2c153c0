"""Choices and curves are scored anew: their scores have rules of their own since each kind of question has its own.

Until then a choice had its Brier score under the name of the other one for yes or no, and a curve had none.
"""

STATEMENTS: tuple[str, ...] = (
    """
delete from score where exists (
  select 1 from prediction p
  where p.forecast = score.forecast and p.target = score.target and p.probability is null)
""",
    "update prediction set scored_against = null where probability is null and scored_against is not null",
)
