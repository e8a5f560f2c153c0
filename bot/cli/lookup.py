"""Help texts for names of questions, forecasts and venues on the command line, and checks of venue names."""

from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, NotFoundError
from bot.core.plain_text import suggest_names
from bot.evaluation.lookup import MIN_ID_CHARS
from bot.plugin_system.registry import Registry
from bot.store.ledger import ReadOnlyState
from bot.store.questions import QuestionFilter

QUESTION_HELP = "A question: venue:key, a key, or a unique part of it."
FORECAST_HELP = (
    f"Forecast id (at least {MIN_ID_CHARS} characters), or a question: its latest forecast, preferring the venue's "
    "first forecaster, then one that uses models."
)


FORECASTER_HELP = "With a question: the latest forecast by NAME."


async def require_known_venue(records: ReadOnlyState, venue: str | None) -> None:
    """Raise NotFoundError, with the known names, for a venue that neither config nor the ledger knows; None passes."""
    if venue is None or venue in records.config.venues:
        return
    chosen = QuestionFilter(venue=venue, limit=1)
    if not await records.ledger.questions.rows(chosen, now=SystemClock().now()):
        raise NotFoundError(unknown_venue_message(records.config, venue))


def require_venue_archive(config: Config, registry: Registry, venue: str | None) -> None:
    """Raise NotFoundError for an unknown venue, ConfigError for one without readable past rounds; None passes."""
    with_archive = [spec.name for spec in registry.venues if spec.archive is not None]
    if venue is None or venue in with_archive:
        return
    if venue not in registry.venues and venue not in config.venues:
        raise NotFoundError(unknown_venue_message(config, venue, *with_archive))
    message = f"--venue {venue}: its past rounds cannot be read; {suggest_names(venue, with_archive)}"
    raise ConfigError(message)


def unknown_venue_message(config: Config, venue: str, *others: str) -> str:
    """Return a message that the venue is unknown, with the known ones."""
    return f"--venue {venue}: there is no such venue; {suggest_names(venue, {*config.venues, *others})}"


def require_configured_venue(config: Config, venue: str) -> None:
    """Raise NotFoundError, with the nearest names, for a venue that config.toml does not have."""
    if venue not in config.venues:
        message = f"config.toml has no venue {venue}; {suggest_names(venue, config.venues)}"
        raise NotFoundError(message)


CONFIGURED_VENUE_HELP = "A venue of config.toml."
