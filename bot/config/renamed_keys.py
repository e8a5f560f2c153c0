"""Settings of the engine that had another name: an old name is refused with the new one.

``foxcast config upgrade`` rewrites a file. Plugins name theirs in ``PluginSettings.renamed_keys``.
"""

from collections.abc import Mapping

# The old key, where * stands for any name, and what its last part is called now.
RENAMED_KEYS: Mapping[str, str] = {
    "daemon.attend_every_s": "requests_every_s",
    "desk": "research",
    "forecasters.*.least_trials": "min_trial_share",
    "limits.least_trials": "min_trial_share",
    "llm.health.gap": "belief_gap",
    "llm.health.half": "even_answers",
    "llm.health.least": "min_trials",
    "llm.providers.*.lost_again": "lost_retries",
    "venues.*.bankroll.least": "min_stake",
    "venues.*.caps.doubts": "unknown_writes",
    "venues.*.trading.stay_out_h": "cooldown_h",
}

_BY_PARTS = {tuple(old.split(".")): new for old, new in RENAMED_KEYS.items()}


def renamed_engine_key(key: tuple[str | int, ...]) -> str | None:
    """Return what the last part of an old key is called now; None for a key that was not renamed."""
    fitting = (new for old, new in _BY_PARTS.items() if len(old) == len(key) and _fits(old, key))
    return next(fitting, None)


def _fits(old: tuple[str, ...], key: tuple[str | int, ...]) -> bool:
    return all(part in ("*", other) for part, other in zip(old, key, strict=True))
