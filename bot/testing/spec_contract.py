"""Tests that the kits of venues, search engines and data sources share: what holds of every spec and its settings."""

# ruff: noqa: S101 - pytest is made of assert
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from bot.core.errors import AuthenticationError, MalformedDataError, RequestRejectedError, ServiceUnavailableError
from bot.core.plugin_specs import API_VERSION, PluginSettings

TRANSPORT_ERRORS = (
    AuthenticationError("401"),
    ServiceUnavailableError("503", retry_after_s=7.0),
    RequestRejectedError("400"),
    MalformedDataError("more bytes than allowed"),
)


class PluginSpecContract:
    """What the spec of every plugin and its settings must do; ``settings`` are those that the tests open it with."""

    spec: ClassVar[Any]
    settings: ClassVar[PluginSettings]

    def test_it_is_built_for_this_version(self) -> None:
        found = self.spec.api_version
        assert found == API_VERSION, f"the plugin is for version {found} of the API, and this is {API_VERSION}"

    def test_unknown_settings_are_refused(self) -> None:
        with pytest.raises(ValidationError, match="no_such_setting"):
            self.spec.settings.model_validate({"no_such_setting": 1})

    def test_settings_cannot_be_changed(self) -> None:
        assert isinstance(self.settings, self.spec.settings), (
            f"`settings` of the kit are {type(self.settings).__name__}, but the spec has {self.spec.settings.__name__}"
        )
        for name in type(self.settings).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(self.settings, name, None)
