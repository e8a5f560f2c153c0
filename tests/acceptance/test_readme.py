"""README as a reader follows it: its blocks of settings and its commands, each as it is shown, against doubles."""

import asyncio
import json
import re
import shlex
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from bot.core.clock import SystemClock
from bot.simulator.fake_service import serve_service
from bot.simulator.providers.gemini import GeminiDouble
from bot.simulator.venues.manifold import FakeManifold
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse
from bot.testing.model_server import play_moves
from tests.acceptance.conftest import CommandResult, FoxcastInstallation, installed

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
KEY = "key-of-a-fake-account-1"
TITLE = "Will a model win a medal this year?"
NEWS = {"web": {"results": [{"title": "News", "url": "https://news.example/1", "description": "Nothing new."}]}}
SEARCHES = play_moves(("web_search", {"query": "what was decided"}), ("web_search", {"query": "what is usual"}))
# A forecaster that disagrees with the market, so that there is something to send.
BIASED = Path(__file__).with_name("biased_forecaster.py")
LIVE = """
plugins = ["manifold", "biased_forecaster"]
plugin_files = ["{plugin}"]
mode = "live"

[venues.manifold]
forecasters = ["leaning"]
[venues.manifold.settings]
username = "foxbot"
key_file = "key"
min_bettors = 0
"""

pytestmark = pytest.mark.timeout(180)


def section(heading: str) -> str:
    """Return the text of one section of README."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## )", README, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def settings_block(heading: str) -> str:
    """Return the one block of settings in a section."""
    (block,) = re.findall(r"^```toml\n(.*?)^```$", section(heading), re.MULTILINE | re.DOTALL)
    return str(block)


def console_commands(heading: str) -> Iterator[list[str]]:
    """Yield the commands in a section, as words without the program's name."""
    (block,) = re.findall(r"^```console\n(.*?)^```$", section(heading), re.MULTILINE | re.DOTALL)
    for line in block.splitlines():
        yield shlex.split(line.removeprefix("$ ").partition("  #")[0])[1:]


def listed_commands(heading: str) -> Iterator[list[str]]:
    """Yield the commands of the program that the numbered list of a section names, in its order."""
    for line in re.findall(r"^\d+\. (.*?)(?=^\d+\. |^\n)", section(heading), re.MULTILINE | re.DOTALL):
        yield from (shlex.split(text)[1:] for text in re.findall(r"`(foxcast [^`]+)`", line))


@asynccontextmanager
async def fake_manifold() -> AsyncIterator[tuple[FakeManifold, Mapping[str, str]]]:
    """Serve a market of the topic that README asks for; yield the venue and the variable that leads to it."""
    venue = FakeManifold(SystemClock())
    venue.world.add_user("foxbot", key=KEY, is_bot=True)
    bettors = {f"bettor{number}" for number in range(30)}
    venue.world.add_market(TITLE, prob=0.3, groups=("ai",), bettors=bettors)
    venue.world.add_market("Will it rain?", prob=0.3, groups=("weather",), bettors=bettors)
    venue.world.add_market("Will a model sing?", prob=0.3, groups=("ai",), bettors={"bettor1"})
    async with serve_service(venue) as served:
        yield venue, {"FOXCAST_VENUES__MANIFOLD__SETTINGS__BASE_URL": served.url}


async def follow(foxcast: FoxcastInstallation, words: list[str]) -> CommandResult:
    """Run a command of README; in a thread, because the servers that it asks are in this one."""
    done = await asyncio.to_thread(foxcast, *words, timeout=120)
    assert done.code == 0, (words, done.err[-3000:])
    return done


@pytest.mark.parametrize(("target", "command"), [("run", "foxcast demo"), ("sample", "foxcast run --once")])
def test_a_make_target_runs_what_readme_says(target: str, command: str) -> None:
    planned = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True)
    assert command in planned.stdout
    assert f"`make {target}`" in README


async def test_one_venue_is_connected_as_shown(tmp_path: Path) -> None:
    async with fake_manifold() as (venue, environment):
        foxcast = installed(tmp_path, "").with_environment(**environment)
        foxcast.config.unlink()
        (tmp_path / "my.toml").write_text(settings_block("Connect one venue"))
        commands = [*console_commands("Connect one venue")]
        assert commands.pop() == ["--config", "my.toml", "run"]
        output = [await follow(foxcast, words) for words in commands]
        assert len(output) == 5
        listed = json.loads((await follow(foxcast, ["--config", "my.toml", "questions", "--json"])).out)
        assert [one["title"] for one in listed] == [TITLE]
    assert [one for one in venue.requests if one.method == "POST"] == []


async def test_one_model_is_connected_as_shown(tmp_path: Path) -> None:
    def news(received: ReceivedRequest) -> ScriptedResponse:
        return ScriptedResponse(body=json.dumps(NEWS).encode())

    async with AsyncExitStack() as stack:
        _, environment = await stack.enter_async_context(fake_manifold())
        engine = await stack.enter_async_context(LoopbackServer(news))
        double = await stack.enter_async_context(GeminiDouble(SEARCHES))
        foxcast = installed(tmp_path, "").with_environment(
            **environment,
            FOXCAST_MODELS__LITELLM__SETTINGS__KEYS__GEMINI="sk-canary-gemini",
            FOXCAST_MODELS__LITELLM__SETTINGS__BASE_URLS__GEMINI=double.base_url,
            FOXCAST_SEARCH__BRAVE__SETTINGS__KEY="sk-canary-search",
            FOXCAST_SEARCH__BRAVE__SETTINGS__BASE_URL=engine.address,
            FOXCAST_FORECASTERS__BLF__TRIALS="1",
            # All but the encyclopaedia, which is a public server.
            FOXCAST_PLUGINS='["manifold", "baseline", "blf", "blend", "litellm", "brave"]',
        )
        (tmp_path / "my.toml").write_text(settings_block("Connect one model"))
        await follow(foxcast, ["--config", "my.toml", "run", "--once"])
        [question] = [
            one["ref"]
            for one in json.loads((await follow(foxcast, ["--config", "my.toml", "questions", "--json"])).out)
            if one["title"] == TITLE
        ]
        shown = json.loads((await follow(foxcast, ["--config", "my.toml", "show", question, "--json"])).out)
        made = {one["forecaster"]: one["id"] for one in shown["forecasts"]}
        assert {*made} == {"blend", "blf", "baseline"}
        forecast = made["blend"]
        for words in console_commands("Connect one model"):
            placed = [{"ID": question, "FORECAST": forecast}.get(word, word) for word in words]
            await follow(foxcast, placed)
        assert double.refusals == []


async def test_going_live_works_as_listed(tmp_path: Path) -> None:
    async with fake_manifold() as (venue, environment):
        foxcast = installed(tmp_path, "").with_environment(**environment)
        foxcast.config.write_text(LIVE.replace("{plugin}", str(BIASED)))
        (tmp_path / "key").write_text(KEY)
        (tmp_path / "key").chmod(0o600)
        # The first two are looked at on paper, before the mode is changed.
        commands = [*listed_commands("Go live")][2:]
        armed = [words[0] for words in commands].index("arm")
        for number, words in enumerate(commands):
            await follow(foxcast, ["manifold" if word == "VENUE" else word for word in words])
            bets = [one for one in venue.requests if (one.method, one.path) == ("POST", "/v0/bet")]
            assert (len(bets) > 0) is (number > armed)
        assert [words[0] for words in commands] == ["run", "preflight", "arm", "run", "orders", "halt", "resume"]
