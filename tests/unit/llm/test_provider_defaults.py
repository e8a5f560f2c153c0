"""What a provider recommends counts where config is silent: in the request, its name on record, and its worst case."""

import pytest

from bot.config.schema import RoleSection
from bot.core.errors import ConfigError, MalformedDataError
from bot.core.language_models import ModelDefaults, SamplingSettings
from bot.llm.providers import FALLBACK_DEFAULTS, provider_defaults, sampling_settings
from bot.testing.models import ScriptedModelProvider, text_completion
from tests.unit.llm.conftest import OpenRig
from tests.unit.llm.gateway_fixture import MAIN, PRICE, SPARE, inquiry, section

HARD = ModelDefaults(max_tokens=32_000, effort="high")


class FakeProviderWithDefaults(ScriptedModelProvider):
    """A provider that recommends something for its models."""

    advice: object = HARD

    def defaults(self, model: str) -> object:
        if isinstance(self.advice, Exception):
            raise self.advice
        return self.advice


def advised(advice: object = HARD) -> dict[str, ScriptedModelProvider]:
    llm = FakeProviderWithDefaults(turns=[text_completion("yes")], default_price=PRICE)
    llm.advice = advice
    return {"prime": llm, "other": ScriptedModelProvider(turns=[text_completion("spare")], default_price=PRICE)}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, SamplingSettings(max_tokens=32_000, effort="high")),
        ({"max_tokens": 9}, SamplingSettings(max_tokens=9, effort="high")),
        ({"effort": "none"}, SamplingSettings(max_tokens=32_000, effort="none")),
        ({"effort": "low", "temperature": 0.5}, SamplingSettings(max_tokens=32_000, effort="low", temperature=0.5)),
    ],
)
def test_the_table_of_a_role_goes_before_what_the_provider_recommends(
    table: dict[str, object], expected: SamplingSettings
) -> None:
    assert sampling_settings("main", RoleSection.model_validate({"model": MAIN, **table}), HARD) == expected


def test_the_small_work_of_the_desk_is_done_at_low_effort_unless_config_says_otherwise() -> None:
    table = RoleSection.model_validate({"model": MAIN})
    assert sampling_settings("filter", table, HARD).effort == "low"
    assert sampling_settings("summariser", RoleSection(model=MAIN, effort="high"), HARD).effort == "high"
    assert sampling_settings("filter", table, ModelDefaults(max_tokens=100)).effort is None


async def test_what_is_recommended_is_sent_named_on_record_and_reserved(open_rig: OpenRig) -> None:
    requests, worst = [], []
    for advice in (HARD, ModelDefaults(max_tokens=1_000)):
        async with open_rig(section(roles={"main": {"model": MAIN}}), llms=advised(advice)) as rig:
            await rig.gateway.ask(inquiry(), deadline_s=60)
            requests.append(rig.prime.requests[0].sampling)
            worst.append(await rig.gateway.worst_usd("main"))
            digests = rig.rows("request, worst_usd")
    assert requests == [SamplingSettings(max_tokens=32_000, effort="high"), SamplingSettings(max_tokens=1_000)]
    assert digests[0][0] != digests[1][0]
    # 10 dollars per million: 31,000 tokens more.
    assert digests[0][1] - digests[1][1] == pytest.approx(0.31)
    # And a prompt of 20,000 tokens at 2.
    assert worst == [pytest.approx(0.04 + 0.32), pytest.approx(0.04 + 0.01)]


async def test_each_model_of_a_role_has_its_own(open_rig: OpenRig) -> None:
    roles = {"main": {"model": SPARE, "fallback": MAIN}}
    async with open_rig(section(roles=roles), llms=advised()) as rig:
        rig.other.turns = [MalformedDataError("odd")]
        await rig.gateway.ask(inquiry(), deadline_s=60)
        assert rig.other.requests[0].sampling.max_tokens == FALLBACK_DEFAULTS.max_tokens == 16_000
        assert rig.prime.requests[0].sampling == SamplingSettings(max_tokens=32_000, effort="high")
        # The dearer of both: 32,000 at 10 dollars.
        assert await rig.gateway.worst_usd("main") == pytest.approx(0.36)


async def test_a_provider_without_a_recommendation_leaves_effort_to_the_model() -> None:
    assert provider_defaults(ScriptedModelProvider(), MAIN) == ModelDefaults(max_tokens=16_000, effort=None)


@pytest.mark.parametrize("advice", [None, 5, ModelDefaults(max_tokens=0), LookupError("sk-secret")])
async def test_a_provider_whose_recommendation_is_none_breaks_its_contract(open_rig: OpenRig, advice: object) -> None:
    async with open_rig(section(), llms=advised(advice)) as rig:
        with pytest.raises(MalformedDataError, match=MAIN) as caught:
            await rig.gateway.ask(inquiry(), deadline_s=60)
        assert "sk-secret" not in str(caught.value)
        assert await rig.gateway.worst_usd("main") is None
    async with open_rig(section(), llms=advised(ConfigError("no such endpoint"))) as rig:
        with pytest.raises(ConfigError, match="no such endpoint"):
            await rig.gateway.ask(inquiry(), deadline_s=60)
