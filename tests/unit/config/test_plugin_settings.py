from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any, Self

import pytest
from pydantic import Field, SecretBytes, SecretStr, field_validator, model_validator

from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings, recordable_settings, restore_settings, settings_key
from bot.config.settings_report import list_origins
from bot.core.errors import ConfigError
from bot.core.interfaces import Forecaster
from bot.core.plugin_specs import ForecasterSpec, LocalPath, PluginContext, PluginSettings

SECRET = "open-sesame"  # noqa: S105 - looked for in what is printed
HEAD = "[forecasters.oracle.settings]\n"


class AccountSettings(PluginSettings):
    user: str = "me"
    password: SecretStr | None = None


class OracleSettings(PluginSettings):
    token: SecretStr = SecretStr("")
    seal: SecretBytes | None = None
    keys: tuple[Annotated[SecretStr, Field(min_length=1)], ...] = ()
    account: AccountSettings = AccountSettings()
    others: tuple[Annotated[AccountSettings, Field()], ...] = ()
    limit: int = Field(default=3, ge=1)
    topics: tuple[str, ...] = ()
    home: LocalPath = Path("home")

    @field_validator("token")
    @classmethod
    def _talk_too_much(cls, token: SecretStr) -> SecretStr:
        if token.get_secret_value().startswith(SECRET):
            message = f"what is {token.get_secret_value()}?"
            raise ValueError(message)
        return token


def open_oracle(settings: PluginSettings, workplace: PluginContext) -> AbstractAsyncContextManager[Forecaster]:
    raise AssertionError


def spec_of(settings: type[PluginSettings]) -> ForecasterSpec[Any]:
    return ForecasterSpec(name="oracle", summary="Knows", settings=settings, open=open_oracle)


SPEC = spec_of(OracleSettings)

Read = Callable[..., Any]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads the settings of the oracle from a config.toml and variables, the beginning of both left out."""

    def read(text: str = "", spec: ForecasterSpec[Any] = SPEC, **variables: str) -> PluginSettings:
        file = tmp_path / "config.toml"
        file.write_text(HEAD + text)
        prefix = "FOXCAST_FORECASTERS__ORACLE__SETTINGS__"
        settings: PluginSettings = load_plugin_settings(
            spec, load_config(file, {prefix + name: value for name, value in variables.items()})
        )
        return settings

    return read


def refusal(read: Read, text: str = "", **variables: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text, **variables)
    assert SECRET not in str(caught.value)
    return "\n".join(line.rpartition("/config.toml")[2] for line in str(caught.value).splitlines())


def test_file_and_variables_are_laid_over_the_defaults(read: Read) -> None:
    settings = read("limit = 5\naccount = { user = 'you' }", ACCOUNT__PASSWORD="pw", TOPICS='["a", "b"]')  # noqa: S106
    assert (settings.limit, settings.account.user, settings.topics) == (5, "you", ("a", "b"))
    assert settings.account.password.get_secret_value() == "pw"


def test_a_table_that_is_not_there_gives_the_defaults() -> None:
    assert load_plugin_settings(SPEC, load_config(Path(__file__).parents[3] / "config.toml", {})).limit == 3


def test_a_local_path_is_meant_beside_the_file(read: Read, tmp_path: Path) -> None:
    assert read("home = 'data'").home == tmp_path / "data"
    assert read("home = '/srv'").home == Path("/srv")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("limt = 5", ":2: forecasters.oracle.settings.limt: there is no such key; did you mean limit?"),
        ("limit = '5'", ":2: forecasters.oracle.settings.limit: should be a valid integer (found text)"),
        ("limit = 0", ":2: forecasters.oracle.settings.limit: should be greater than or equal to 1"),
        (
            "account = { usr = 'x' }",
            ":2: forecasters.oracle.settings.account.usr: there is no such key; did you mean user?",
        ),
    ],
)
def test_a_wrong_setting_names_its_line_and_the_nearest_name(read: Read, text: str, expected: str) -> None:
    assert refusal(read, text) == expected


def test_a_misspelt_variable_of_a_plugin_is_refused(read: Read) -> None:
    assert refusal(read, LIMT="5").endswith("did you mean FOXCAST_FORECASTERS__ORACLE__SETTINGS__LIMIT?")


@pytest.mark.parametrize(
    "text",
    [
        f"token = '{SECRET}'",
        f"seal = '{SECRET}'",
        f"keys = ['{SECRET}']",
        f"account = {{ password = '{SECRET}' }}",
        f"account.password = '{SECRET}'",
        f"others = [{{ user = 'a' }}, {{ password = '{SECRET}' }}]",
        f"token = ['{SECRET}']",
    ],
)
def test_a_secret_in_config_toml_is_refused_with_the_variable_to_use_instead(read: Read, text: str) -> None:
    said = refusal(read, text)
    assert said.startswith(":2: forecasters.oracle.settings.")
    assert "a secret must not be in this file; set FOXCAST_FORECASTERS__ORACLE__SETTINGS__" in said


def test_a_secret_comes_from_a_variable_as_it_is(read: Read) -> None:
    service = '{"type": "service"}'
    assert read(TOKEN=service).token.get_secret_value() == service


def test_a_secret_comes_from_a_file_of_its_owner(read: Read, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("hush\n")
    file.chmod(0o600)
    assert read("token_file = 'token'").token.get_secret_value() == "hush"
    assert read("token_file = 'elsewhere'", TOKEN_FILE=str(file)).token.get_secret_value() == "hush"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o602])
def test_a_secret_file_open_to_others_is_refused(read: Read, tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    file.write_text(SECRET)
    file.chmod(mode)
    assert f"{file} can be read or written by others; run: chmod 600" in refusal_in_full(read)


@pytest.mark.parametrize("content", [b"", b" \n", b"x" * (64 * 1024 + 1), None])
def test_a_secret_file_that_holds_no_secret_is_refused(read: Read, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
        (tmp_path / "token").chmod(0o600)
    assert "forecasters.oracle.settings.token_file: " in refusal_in_full(read)


def refusal_in_full(read: Read) -> str:
    with pytest.raises(ConfigError) as caught:
        read("token_file = 'token'")
    return str(caught.value)


def test_a_secret_given_twice_is_refused(read: Read, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hush")
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(ConfigError, match="is set twice, also by token_file; keep one of them"):
        read("token_file = 'token'", TOKEN="hush")  # noqa: S106 - not one


def test_a_missing_secret_is_not_asked_for_in_the_file(read: Read) -> None:
    class Strict(PluginSettings):
        token: SecretStr

    with pytest.raises(
        ConfigError, match="is missing; set FOXCAST_FORECASTERS__ORACLE__SETTINGS__TOKEN, or token_file"
    ):
        read(spec=spec_of(Strict))


def test_a_setting_named_like_a_file_stays_the_own_one_of_the_plugin(read: Read) -> None:
    class Own(PluginSettings):
        token: SecretStr = SecretStr("")
        token_file: str = ""

    assert read("token_file = 'plain'", spec=spec_of(Own)).token_file == "plain"  # noqa: S105 - nor here


def test_a_validator_that_repeats_a_secret_is_masked(read: Read) -> None:
    assert "what is ***?" in refusal(read, TOKEN=SECRET)


def test_a_rule_over_several_settings_sees_file_and_variables_together(read: Read) -> None:
    class Pair(PluginSettings):
        user: str = ""
        token: SecretStr = SecretStr("")

        @model_validator(mode="after")
        def _both(self) -> Self:
            if bool(self.user) != bool(self.token.get_secret_value()):
                message = "user and token belong together"
                raise ValueError(message)
            return self

    assert read("user = 'me'", spec=spec_of(Pair), TOKEN="hush").user == "me"  # noqa: S106
    with pytest.raises(
        ConfigError, match=r"config.toml:1: forecasters.oracle.settings: user and token belong together"
    ):
        read("user = 'me'", spec=spec_of(Pair))


def test_origins_of_settings_mask_secrets_and_name_the_file_that_holds_them(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hush")
    (tmp_path / "token").chmod(0o600)
    file = tmp_path / "config.toml"
    file.write_text(f"{HEAD}token_file = 'token'\nlimit = 4")
    config = load_config(file, {"FOXCAST_FORECASTERS__ORACLE__SETTINGS__ACCOUNT__PASSWORD": SECRET})
    shown = {row.key: row for row in list_origins(config, {settings_key(SPEC): load_plugin_settings(SPEC, config)})}
    token = shown["forecasters.oracle.settings.token"]
    assert (token.value, token.source) == ("**********", f"{file}:2")
    assert shown["forecasters.oracle.settings.limit"].source == f"{file}:3"
    password = shown["forecasters.oracle.settings.account.password"]
    assert (password.value, password.source) == (
        "**********",
        "env FOXCAST_FORECASTERS__ORACLE__SETTINGS__ACCOUNT__PASSWORD",
    )
    assert shown["forecasters.oracle.settings.topics"].source == "default"
    assert SECRET not in f"{config!r}{shown}{config.sources!r}"


class KeyringSettings(PluginSettings):
    account: AccountSettings = AccountSettings()
    accounts: tuple[AccountSettings, ...] = ()
    doors: dict[str, AccountSettings] = Field(default_factory=dict)
    keys: dict[str, SecretStr] = Field(default_factory=dict)


def secret_file(folder: Path, name: str = "pw") -> Path:
    file = folder / name
    file.write_text(f"{SECRET}\n")
    file.chmod(0o600)
    return file


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("account = { user = 'you', password_file = 'pw' }", lambda ring: ring.account.password),
        ("accounts = [{ user = 'a' }, { password_file = 'pw' }]", lambda ring: ring.accounts[1].password),
        ("doors.front.password_file = 'pw'", lambda ring: ring.doors["front"].password),
        ("keys.front_file = 'pw'", lambda ring: ring.keys["front"]),
    ],
)
def test_a_secret_inside_a_table_comes_from_a_file_too(
    read: Read, tmp_path: Path, text: str, found: Callable[[Any], SecretStr]
) -> None:
    secret_file(tmp_path)
    ring = read(text, spec_of(KeyringSettings))
    assert found(ring).get_secret_value() == SECRET
    assert [*ring.keys] in ([], ["front"])


@pytest.mark.parametrize("name", ["KEYS__FRONT_FILE", "DOORS__FRONT__PASSWORD_FILE"])
def test_a_variable_names_the_file_of_a_secret_inside_a_table(read: Read, tmp_path: Path, name: str) -> None:
    ring = read("", spec_of(KeyringSettings), **{name: str(secret_file(tmp_path))})
    found = ring.keys["front"] if name.startswith("KEYS") else ring.doors["front"].password
    assert found.get_secret_value() == SECRET


def test_the_remedy_for_a_secret_inside_a_table_is_one_that_works(read: Read, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="KEYS__FRONT, or front_file to a file that only you can read"):
        read(f"keys.front = '{SECRET}'", spec_of(KeyringSettings))
    secret_file(tmp_path).chmod(0o644)
    with pytest.raises(ConfigError, match=r"keys\.front_file: .*chmod 600"):
        read("keys.front_file = 'pw'", spec_of(KeyringSettings))
    with pytest.raises(ConfigError, match="is set twice, also by front_file"):
        read("keys.front_file = 'pw'", spec_of(KeyringSettings), KEYS__FRONT="other")


def test_settings_go_on_record_without_secrets_and_come_back_with_those_of_today(tmp_path: Path) -> None:
    class Deep(PluginSettings):
        account: AccountSettings = AccountSettings()
        url: str = ""
        limit: int = 3

    spec = spec_of(Deep)
    file = tmp_path / "config.toml"
    password = "FOXCAST_FORECASTERS__ORACLE__SETTINGS__ACCOUNT__PASSWORD"  # noqa: S105 - a name
    file.write_text(f"{HEAD}limit = 5\nurl = 'https://me:{SECRET}@host/x'\naccount = {{ user = 'you' }}")
    plain = recordable_settings(load_plugin_settings(spec, load_config(file, {password: SECRET})))
    assert plain == {"account": {"user": "you"}, "url": "https://***@host/x", "limit": 5}
    file.write_text(f"{HEAD}limit = 8")
    again = restore_settings(spec, load_config(file, {password: "other"}), plain)
    assert (again.limit, again.account.user) == (5, "you")
    assert again.account.password == SecretStr("other")


def test_settings_on_record_that_the_plugin_does_not_know_are_named(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("")
    with pytest.raises(ConfigError, match=r"recorded settings of oracle do not fit .* gone: "):
        restore_settings(SPEC, load_config(file, {}), {"gone": 1})
