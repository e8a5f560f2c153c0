"""How a forecaster was configured for one forecast, as the ledger keeps it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from bot.domain.forecast import Limits
from bot.domain.step import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All that config decides of one forecaster, but for its secrets.

    ``settings`` are those of the plugin as JSON, defaults included; ``aggregate`` is how trials become one answer;
    ``uses`` names the forecaster that this one is a variant of.
    """

    settings: Mapping[str, Json]
    trials: int
    aggregate: str
    limits: Limits
    uses: str | None = None
    clairvoyant: bool = False

    def __post_init__(self) -> None:
        """Freeze the settings' top level."""
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    def named(self) -> Mapping[str, Json]:
        """Return every value by a name of its own, such as ``setting: crowd`` or ``limit: steps``."""
        limits = {f"limit: {field.name}": getattr(self.limits, field.name) for field in fields(self.limits)}
        return {
            "variant of": self.uses,
            "trials configured": self.trials,
            "aggregate": self.aggregate,
            "clairvoyant": self.clairvoyant,
            **limits,
            **{f"setting: {name}": value for name, value in _flat(self.settings)},
        }


def _flat(table: Mapping[str, Json], under: str = "") -> Iterator[tuple[str, Json]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{under}{name}.")
        else:
            yield f"{under}{name}", value
