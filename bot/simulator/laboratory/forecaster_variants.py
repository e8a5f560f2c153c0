"""The forecaster variants that the laboratory compares.

Their settings, and the simulated models that play their roles.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Any

from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass
from bot.simulator.models.behaviour import ModelBehaviour

# Names of models in the laboratory; all of them are simulated, and their names say so.
SOBER, HASTY, LAX = "simulated-sober", "simulated-hasty", "simulated-lax"
# Two that differ only in the overconfidence of the second.
PLAIN, BOLD = "simulated-plain", "simulated-bold"
# The factor by which the bold one multiplies log-odds.
OVERCONFIDENCE_FACTOR = 2.5
# The misjudgement of a model in each conversation, as a deviation in log-odds.
MODEL_NOISE = 0.5
SIMULATED_MODELS: Mapping[str, ModelBehaviour] = {
    SOBER: ModelBehaviour(noise=MODEL_NOISE),
    # Reads less and errs more.
    HASTY: ModelBehaviour(noise=2.0 * MODEL_NOISE, searches=1, pages=2),
    PLAIN: ModelBehaviour(noise=0.0),
    BOLD: ModelBehaviour(noise=0.0, log_odds_factor=OVERCONFIDENCE_FACTOR),
    # As a judge of texts it lets everything pass.
    LAX: ModelBehaviour(noise=MODEL_NOISE, lenient=1.0),
}
TRIAL_COUNTS = (1, 3, 5)
REFERENCE = "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecasterVariant:
    """One forecaster as configured: its base, settings, trials and models.

    ``reference`` is the setup that it is compared with, where that is not the reference. ``models_by_role`` says which
    model plays which role; with ``filter`` None nobody judges texts; ``hides_crowd``: it sees no market price.
    ``audits_leaks``: its documents are audited
    afterwards; ``is_calibrated``: the gated calibrator is applied to its answers.
    """

    name: str
    forecaster: str = "blf"
    settings: Mapping[str, Any] = field(default_factory=dict)
    trials: int = 1
    clairvoyant: bool = False
    models_by_role: Mapping[str, str] = field(default_factory=lambda: {"main": SOBER})
    filter: str | None = SOBER
    hides_crowd: bool = False
    audits_leaks: bool = False
    is_calibrated: bool = False
    reference: str | None = None


# The parts that can be removed, with the additional runs for them; the others follow from the reference's trials.
PARTS: Mapping[str, tuple[ForecasterVariant, ...]] = {
    "belief": (ForecasterVariant(name="no belief state", settings={"belief": False}),),
    "trials": (),
    "aggregate": (),
    "gate": (),
    "crowd": (ForecasterVariant(name="no crowd", settings={"crowd": False}),),
    "filter": (ForecasterVariant(name="no judge, excerpts only", filter=None),),
    "leaks": (
        ForecasterVariant(name="judge lets all pass", filter=LAX, audits_leaks=True),
        ForecasterVariant(name="clairvoyant", clairvoyant=True),
    ),
    "overconfidence": (),
}

# Answers at once, from the text of the question: many in little time, and without limits.
_ONE_STEP_SETTINGS = {"zero_shot": "short", "submit_margin": 0.0001, "step_margin": 0.0001}
PLAIN_ONE_STEP, BOLD_ONE_STEP = (
    ForecasterVariant(
        name=f"{name}, at once",
        settings=_ONE_STEP_SETTINGS,
        models_by_role={"main": model},
        filter=None,
        is_calibrated=True,
    )
    for name, model in (("plain", PLAIN), ("bold", BOLD))
)


def chosen_parts(only: Collection[str]) -> list[str]:
    """Return the parts in their order, those that are named or all; raises ConfigError for another name."""
    if strange := [name for name in only if name not in PARTS]:
        message = f"there is no part {', '.join(strange)} of the laboratory; there are {', '.join(PARTS)}"
        raise ConfigError(message)
    return [name for name in PARTS if not only or name in only]


def ablation_variants(parts: Collection[str]) -> Iterator[ForecasterVariant]:
    """Yield the runs for these parts, the reference first."""
    several = any(part in parts for part in ("trials", "aggregate", "gate"))
    yield ForecasterVariant(
        name=REFERENCE,
        trials=max(TRIAL_COUNTS) if several else 1,
        audits_leaks="leaks" in parts,
        is_calibrated="gate" in parts,
    )
    for part in parts:
        yield from PARTS[part]
