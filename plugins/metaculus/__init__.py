"""The Metaculus venue: reads questions of its tournaments, submits forecasts and private comments; nothing is traded.

The key of a question is ``POST:QUESTION``: pages and comments go by the number of the post, forecasts by that of the
question, and the two overlap. Questions of a group and the two branches of a conditional are questions of their own.

The event of a question is its post, its market the question's number, its category the tournament. Its facts (all
texts): ``post`` (its number), ``form`` (single, group or conditional), ``type`` (binary, multiple_choice, numeric,
discrete, date); where they exist also ``options_ever`` (including removed ones), ``version`` (how many sets of options
there were), ``projects`` (the numbers of tournaments and series), ``score``, ``scale`` (of a number or date). Nothing
is learned from them: the site's terms forbid training and evaluating models on data of its API without written
permission.

All requests share one queue: a request every 3.6 seconds. Community predictions are read by discovery; windows are
hours, sometimes minutes, so it runs every seven and a half minutes unless config says otherwise.
"""

from collections.abc import Sequence
from datetime import timedelta

from bot.api import RateLimit, SetupChoice, SetupValue, VenueSpec, hookimpl
from plugins.metaculus.account_check import check_account
from plugins.metaculus.history import read_history
from plugins.metaculus.paper_record import open_paper
from plugins.metaculus.question_names import REQUEST_SPACING_S, VENUE
from plugins.metaculus.reader import open_reader
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.write_requests import is_account_refusal
from plugins.metaculus.writer import open_writer

# Between the 5 and the 10 minutes of docs/facts/metaculus.md#tournaments.
DISCOVERY_INTERVAL = timedelta(seconds=450)


def rate_limits(settings: MetaculusSettings) -> Sequence[RateLimit]:
    """Return the one rate limit for all requests."""
    return (
        RateLimit(
            name=VENUE,
            prefixes=(f"{settings.base_url.rstrip('/')}/",),
            count=1,
            per_s=REQUEST_SPACING_S,
            max_in_flight=1,
        ),
    )


SETUP = SetupChoice(
    name=VENUE,
    title="A Metaculus tournament (needs the token of a bot account, also to read)",
    values=(
        SetupValue(
            name="token",
            key="token",
            prompt="Token of your bot account (site: Settings, My Forecasting Bots)",
            secret=True,
        ),
        SetupValue(
            name="tournaments",
            key="tournaments",
            prompt="Tournaments, by slug",
            default=",".join(map(str, MetaculusSettings.model_fields["tournaments"].default)),
            is_list=True,
        ),
    ),
    table={"comment": True},
)


@hookimpl
def foxcast_venues() -> list[VenueSpec[MetaculusSettings]]:
    """Offer the one venue of this plugin."""
    return [
        VenueSpec(
            name=VENUE,
            summary="Tournaments for bots and people: probabilities, choices, numbers and dates, scored against others",
            withdraws=True,
            forecast_lifetime=MetaculusSettings.forecast_lifetime,
            comment_fee=lambda _: 0.0,
            settings=MetaculusSettings,
            setup=(SETUP,),
            hosts=("metaculus.com",),
            reader=open_reader,
            read_history=read_history,
            paper=open_paper,
            writer=open_writer,
            check=check_account,
            rates=rate_limits,
            discover_every=DISCOVERY_INTERVAL,
            is_credential_refusal=is_account_refusal,
        )
    ]
