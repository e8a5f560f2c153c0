"""The Metaculus venue: questions of its tournaments in, forecasts and private comments out; nothing is traded.

The key of a question is ``POST:QUESTION``: pages and comments go by the number of the post, forecasts by that of the
question, and the two overlap. Questions of a group and the two branches of a conditional are questions of their own.

Facts of a question (all texts): ``market`` (the question's number), ``post`` and ``event`` (the post's), ``category``
(its tournament), ``form`` (single, group or conditional), ``type`` (binary, multiple_choice, numeric, discrete, date);
where they exist also ``label`` (within its group), ``options_ever`` (with those that are gone), ``version`` (how
many sets of options there were), ``projects`` (the numbers of tournaments and series), ``spot_at`` (when forecasts are
scored, unless they are over time), ``score``, ``weight``, ``scale`` (of a number or date). ``training`` is "no": the site's terms forbid training and evaluating models on what its interface
says without written leave.

Everything that is asked or written is one queue: a request every 3.6 seconds. Prices are polled by discovery; windows
are hours, sometimes minutes, so it is read every seven and a half minutes unless config says otherwise.
"""

from collections.abc import Sequence
from datetime import timedelta

from bot.api import Can, Rate, VenueSpec, hookimpl
from plugins.metaculus.check import check
from plugins.metaculus.paper import open_paper
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.terms import SPACING_S, VENUE
from plugins.metaculus.venue import open_reader
from plugins.metaculus.verdict import refuses_account
from plugins.metaculus.writer import open_writer

# Between the 5 and the 10 minutes that the venue document asks for, section 12 (MC-P3).
DISCOVER_EVERY = timedelta(seconds=450)


def rates_of(settings: MetaculusSettings) -> Sequence[Rate]:
    """Return the one queue for everything."""
    return (Rate(name=VENUE, prefixes=(f"{settings.base_url.rstrip('/')}/",), count=1, per_s=SPACING_S, at_once=1),)


@hookimpl
def foxcast_venues() -> list[VenueSpec[MetaculusSettings]]:
    """Offer the one venue of this plugin."""
    return [
        VenueSpec(
            name=VENUE,
            summary="Tournaments for bots and people: probabilities, choices, numbers and dates, scored against others",
            abilities=frozenset({Can.SUBMIT, Can.COMMENT, Can.WITHDRAW, Can.PAPER}),
            settings=MetaculusSettings,
            hosts=("metaculus.com",),
            reader=open_reader,
            paper=open_paper,
            writer=open_writer,
            check=check,
            rates=rates_of,
            discover_every=DISCOVER_EVERY,
            refuses_credentials=refuses_account,
        )
    ]
