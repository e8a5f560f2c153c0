"""What the author of a job uses.

Called in this order: ``run``.

The daemon calls ``JobSpec.run`` with a ``PluginContext`` every ``JobSpec.every``. It returns one line about what it
did, and raises for a failure.
"""

from bot.core.plugin_specs import JobSpec

__all__ = [
    "JobSpec",
]
