"""Names of venues that a person gives: one that nobody knows is a mistake, and not an empty answer."""

from bot.app import Records
from bot.clock import SystemClock
from bot.config.model import Config
from bot.config.nearest import instead
from bot.errors import ConfigError
from bot.registry import Registry
from bot.store.questions import QuestionFilter


async def require_venue(records: Records, venue: str | None) -> None:
    """Raise ConfigError with the known names for a venue that neither config nor the ledger knows; None is any."""
    if venue is None or venue in records.config.venues:
        return
    chosen = QuestionFilter(venue=venue, limit=1)
    if not await records.ledger.questions.rows(chosen, now=SystemClock().now()):
        raise ConfigError(unknown(records.config, venue))


def require_archive(config: Config, registry: Registry, venue: str | None) -> None:
    """Raise ConfigError with the known names for a venue of which no enabled plugin reads past rounds; None is any."""
    able = [spec.name for spec in registry.venues if spec.archive is not None]
    if venue is None or venue in able:
        return
    if venue not in registry.venues and venue not in config.venues:
        raise ConfigError(unknown(config, venue, *able))
    message = f"--venue {venue}: it has no past rounds that could be read; {instead(venue, able)}"
    raise ConfigError(message)


def unknown(config: Config, venue: str, *others: str) -> str:
    """Say that there is no such venue, and which there are."""
    return f"--venue {venue}: there is no such venue; {instead(venue, {*config.venues, *others})}"
