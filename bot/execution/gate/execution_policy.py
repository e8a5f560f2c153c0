"""How config allows a venue to be used: execution mode, submitting forecaster, account, and limits."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from datetime import timedelta
from typing import Any

from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.config.venue_schema import (
    DEFAULT_COMMENT,
    BankrollSection,
    CapsSection,
    ChooseTable,
    ExcludeSection,
    TradingSection,
)
from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass
from bot.core.orders import Order, OrderSide
from bot.core.plugin_specs import OrderFees, PluginTableName, VenueSpec
from bot.core.questions import Question
from bot.core.submissions import LIVE_MODES, ExecutionMode
from bot.execution.gate.config_digest import OfferedSpecs, config_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPolicy:
    """How one venue may be used: mode, submitting forecaster, account and limits.

    ``primary_forecaster`` submits, except for questions that match a table in ``choose``; nothing is submitted for
    questions that ``exclude`` names. ``hand_trading``: a person writes to the account too. ``posts_comments``: the
    reasons of an accepted forecast are posted as a comment, made from ``comment_template``. ``config_digest`` is that
    of the configuration that an arm record for it is bound to. ``fees`` are those of the venue, None where no forecast
    becomes an order. ``forecast_lifetime`` is after which time a forecast lapses at the venue, None for never.
    """

    venue: str
    mode: ExecutionMode
    primary_forecaster: str
    account: str
    caps: CapsSection = field(default_factory=CapsSection)
    trading: TradingSection = field(default_factory=TradingSection)
    bankroll: BankrollSection = field(default_factory=BankrollSection)
    close_margin: timedelta = timedelta()
    hand_trading: bool = False
    approval_lifetime: timedelta = timedelta(hours=12)
    posts_comments: bool = False
    comment_template: str = DEFAULT_COMMENT
    config_digest: str = ""
    choose: tuple[ChooseTable, ...] = ()
    exclude: ExcludeSection = field(default_factory=ExcludeSection)
    fees: OrderFees | None = None
    forecast_lifetime: timedelta | None = None

    @property
    def eligible_forecasters(self) -> frozenset[str]:
        """All forecasters that submit for some questions, if that depends on the question; else empty."""
        chosen = [table.forecasters[0] for table in self.choose]
        return frozenset((self.primary_forecaster, *chosen)) if chosen else frozenset()

    def submitting_forecaster(self, question: Question) -> str:
        """Return the forecaster whose forecast of a question is submitted."""
        return next((table.forecasters[0] for table in self.choose if table.matches(question)), self.primary_forecaster)

    def exclusion_reason(self, question: Question, order: Order | None) -> str | None:
        """Return why a question is excluded, or None; positions in it may still be sold."""
        sells = order is not None and order.side is OrderSide.SELL
        return None if sells else self.exclude.exclusion_reason(question)

    @property
    def is_live(self) -> bool:
        """Whether submissions go to the real venue."""
        return self.mode in LIVE_MODES


def venue_policy(config: Config, venue: str, offered: OfferedSpecs) -> ExecutionPolicy:
    """Return the policy of a venue that has a table in config; ``offered`` is what the enabled plugins offer."""
    table = config.venues[venue]
    specs = (one for one in offered(PluginTableName.VENUES) if isinstance(one, VenueSpec))
    spec: VenueSpec[Any] | None = next((one for one in specs if one.name == venue), None)
    return ExecutionPolicy(
        venue=venue,
        mode=config.mode_of(venue),
        primary_forecaster=table.forecasters[0],
        choose=table.choose,
        exclude=table.exclude,
        account=table.account,
        caps=table.caps,
        trading=table.trading,
        bankroll=table.bankroll,
        close_margin=timedelta(seconds=table.close_margin_s),
        approval_lifetime=timedelta(hours=table.approval_h),
        hand_trading=table.hand_trading,
        posts_comments=table.comment,
        comment_template=table.comment_template,
        config_digest=config_digest(config, venue, offered),
        fees=None if spec is None else spec.fees,
        forecast_lifetime=None if spec is None else _forecast_lifetime(config, spec),
    )


def _forecast_lifetime(config: Config, spec: VenueSpec[Any]) -> timedelta | None:
    if spec.forecast_lifetime is not None:
        # With settings that cannot be read the venue is not opened either.
        with suppress(ConfigError):
            return spec.forecast_lifetime(load_plugin_settings(spec, config))
    return None


def venue_policies(
    config: Config, offered: OfferedSpecs, *, known: Mapping[str, ExecutionPolicy] | None = None
) -> Mapping[str, ExecutionPolicy]:
    """Return the policies of all venues in config, by name; ``known`` are those that exist already.

    Each new one needs a slow hash of the secrets of its venue.
    """
    made = known or {}
    return {venue: made.get(venue) or venue_policy(config, venue, offered) for venue in config.venues}


def paper_venues(policies: Mapping[str, ExecutionPolicy]) -> frozenset[str]:
    """Return the venues whose account is a paper book."""
    return frozenset(venue for venue, policy in policies.items() if not policy.is_live)
