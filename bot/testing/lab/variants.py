"""What is compared in the laboratory: forecasters by their configuration, with the models that play their roles."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.errors import ConfigError
from bot.testing.world.habits import Habits

# Names of models in the laboratory; all of them are simulated and say so.
SOBER, HASTY, LAX = "simulated-sober", "simulated-hasty", "simulated-lax"
# Two that are alike but for the overconfidence of the second.
PLAIN, BOLD = "simulated-plain", "simulated-bold"
# By how much the bold one multiplies log-odds.
FACTOR = 2.5
# What a mind misjudges in each conversation, as a deviation in log-odds.
NOISE = 0.5
MINDS: Mapping[str, Habits] = {
    SOBER: Habits(noise=NOISE),
    # Reads less and errs more.
    HASTY: Habits(noise=2.0 * NOISE, searches=1, pages=2),
    PLAIN: Habits(noise=0.0),
    BOLD: Habits(noise=0.0, factor=FACTOR),
    # As a judge of texts it lets everything pass.
    LAX: Habits(noise=NOISE, lenient=1.0),
}
TRIALS = (1, 3, 5)
REFERENCE = "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One forecaster as it is configured: whom it is a variant of, with which settings, trials and models.

    ``against`` is what it is held against, where that is not the reference. ``cast`` says which model plays which role;
    with ``filter`` None nobody judges texts. ``audited``: what it read is audited afterwards; ``corrected``: the gated
    calibrator goes over its answers.
    """

    name: str
    uses: str = "blf"
    settings: Mapping[str, Any] = field(default_factory=dict)
    trials: int = 1
    clairvoyant: bool = False
    cast: Mapping[str, str] = field(default_factory=lambda: {"main": SOBER})
    filter: str | None = SOBER
    audited: bool = False
    corrected: bool = False
    against: str | None = None


# What can be left out, with what is run for it beside the reference; the others follow from its trials.
PARTS: Mapping[str, tuple[Setup, ...]] = {
    "belief": (Setup(name="no belief state", settings={"belief": False}),),
    "trials": (),
    "aggregate": (),
    "gate": (),
    "crowd": (Setup(name="no crowd", settings={"crowd": False}),),
    "filter": (Setup(name="no judge, excerpts only", filter=None),),
    "leaks": (
        Setup(name="judge lets all pass", filter=LAX, audited=True),
        Setup(name="clairvoyant", clairvoyant=True),
    ),
    "overconfidence": (),
}

# Answers at once, from what stands in the question: many in little time, and bounded by nothing.
_AT_ONCE = {"zero_shot": "short", "submit_margin": 0.0001, "step_margin": 0.0001}
PLAIN_AT_ONCE, BOLD_AT_ONCE = (
    Setup(name=f"{name}, at once", settings=_AT_ONCE, cast={"main": model}, filter=None, corrected=True)
    for name, model in (("plain", PLAIN), ("bold", BOLD))
)


def chosen_parts(only: Collection[str]) -> list[str]:
    """Return the parts in their order, those that are named or all; raises ConfigError for another name."""
    if strange := [name for name in only if name not in PARTS]:
        message = f"there is no part {', '.join(strange)} of the laboratory; there are {', '.join(PARTS)}"
        raise ConfigError(message)
    return [name for name in PARTS if not only or name in only]


def setups_of(parts: Collection[str]) -> Iterator[Setup]:
    """Yield what is run for these parts, the reference first."""
    several = any(part in parts for part in ("trials", "aggregate", "gate"))
    yield Setup(
        name=REFERENCE, trials=max(TRIALS) if several else 1, audited="leaks" in parts, corrected="gate" in parts
    )
    for part in parts:
        yield from PARTS[part]
