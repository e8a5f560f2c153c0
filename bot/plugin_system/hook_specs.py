"""The hooks of plugins, one per kind of spec. Each returns a list of specs and must do nothing else."""

# pluggy reads the signature of a specification and never calls it, so there is no body.
# mypy: disable-error-code="empty-body"

from typing import Any

import pluggy

from bot.core.plugin_specs import (
    CommandSpec,
    DataSpec,
    ForecasterSpec,
    JobSpec,
    ModelSpec,
    NotifierSpec,
    SearchSpec,
    VenueSpec,
)

hookspec = pluggy.HookspecMarker("foxcast")
hookimpl = pluggy.HookimplMarker("foxcast")


@hookspec
def foxcast_venues() -> list[VenueSpec[Any]]:
    """Return the venues this plugin offers."""


@hookspec
def foxcast_forecasters() -> list[ForecasterSpec[Any]]:
    """Return the forecasters this plugin offers."""


@hookspec
def foxcast_search_engines() -> list[SearchSpec[Any]]:
    """Return the search engines this plugin offers."""


@hookspec
def foxcast_data_sources() -> list[DataSpec[Any]]:
    """Return the sources of time series this plugin offers."""


@hookspec
def foxcast_models() -> list[ModelSpec[Any]]:
    """Return the providers of language models this plugin offers."""


@hookspec
def foxcast_notifiers() -> list[NotifierSpec[Any]]:
    """Return the channels to a person this plugin offers."""


@hookspec
def foxcast_commands() -> list[CommandSpec]:
    """Return the commands this plugin adds to ``foxcast``."""


@hookspec
def foxcast_jobs() -> list[JobSpec]:
    """Return the jobs this plugin adds to the daemon."""
