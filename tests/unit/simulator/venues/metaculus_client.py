"""A fake Metaculus on a real port with the questions of the recorded samples, and a client of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from bot.simulator.fake_service import serve_service
from bot.simulator.venues.metaculus import FakeMetaculus
from bot.simulator.venues.metaculus_state import FakeMetaculusQuestion
from bot.simulator.venues.metaculus_world import question_scaling
from bot.testing.clock import FakeClock

TOKEN = "f" * 40


class RawMetaculusClient:
    """``own`` is the bot whose token the client sends; ``other`` is a rival."""

    def __init__(self, venue: FakeMetaculus, clock: FakeClock, client: httpx.AsyncClient) -> None:
        self.venue, self.clock, self.client, self.world = venue, clock, client, venue.world
        self.own = self.world.add_user("samplebot", token=TOKEN)
        self.other = self.world.add_user("samplebot2")
        self.headers = {"Authorization": f"Token {TOKEN}"}

    async def get(self, path: str, **params: Any) -> httpx.Response:
        return await self.client.get(path, params=params or None, headers=self.headers)

    async def read(self, path: str, **params: Any) -> Any:
        reply = await self.get(path, **params)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def post(self, path: str, body: Any) -> httpx.Response:
        content = body if isinstance(body, str) else json.dumps(body)
        headers = {**self.headers, "Content-Type": "application/json"}
        return await self.client.post(path, content=content, headers=headers)

    async def forecast(self, question: FakeMetaculusQuestion, value: Any, **more: Any) -> httpx.Response:
        kinds = {"binary": "probability_yes", "multiple_choice": "probability_yes_per_category"}
        item = {"question": question.id, kinds.get(question.type, "continuous_cdf"): value, **more}
        return await self.post("/api/questions/forecast/", [item])

    async def question(self, question: FakeMetaculusQuestion, **params: Any) -> Any:
        return (await self.read(f"/api/posts/{question.post}/", **params))["question"]


@asynccontextmanager
async def open_metaculus(*, metaculus_production: bool) -> AsyncIterator[RawMetaculusClient]:
    clock = FakeClock()
    venue = FakeMetaculus(clock, production=metaculus_production)
    async with (
        serve_service(venue) as served,
        httpx.AsyncClient(base_url=served.url, timeout=5.0, trust_env=False) as client,
    ):
        yield RawMetaculusClient(venue, clock, client)


def line(start: float, end: float, count: int = 201) -> list[float]:
    """Return equal steps from one value to another."""
    return [start + (end - start) * place / (count - 1) for place in range(count)]


def mirror(metaculus: RawMetaculusClient) -> None:
    """Publish what the recorded samples are about."""
    world, now = metaculus.world, metaculus.venue.now()
    add = world.add_question
    past, late = now - timedelta(minutes=30), now + timedelta(days=30)
    for title in ("bin_open", "bin_open2", "bin_hidden_cp", "bin_short"):
        add(title, open=past, scheduled_close=late)
    add("bin_unpublished", post={"published": late}, open=late, scheduled_close=late + timedelta(days=1))
    add("bin_closed", open=past, scheduled_close=now - timedelta(minutes=1))
    add("bin_draft", post={"is_draft": True})
    add("bin_private", post={"is_private": True})
    add("bin_viewonly", post={"permission": "viewer"})
    add("mc_open", type="multiple_choice", options=["Red", "Green", "Blue", "Other"], group_variable="Colour")
    add("num_closed_linear", type="numeric", scaling=question_scaling(0.0, 100.0))
    add(
        "num_open_log",
        type="numeric",
        scaling=question_scaling(1.0, 10_000.0, zero_point=0.0, open_lower=True, open_upper=True),
    )
    add("num_openupper", type="numeric", scaling=question_scaling(0.0, 100.0, open_upper=True))
    add("disc", type="discrete", scaling=question_scaling(0.0, 9.0, open_upper=True, count=10), unit="goals")
    low = 1795292472.060379
    add("date_open", type="date", scaling=question_scaling(low, low + 365 * 86_400.0, open_upper=True))
    group = world.add_group(
        "group_num", ["France", "Spain"], type="numeric", scaling=question_scaling(0.0, 50.0, open_upper=True), unit="%"
    )
    assert group.id == 40_016
    binaries = world.add_group("group_bin", ["A", "B", "C"]).questions
    world.resolve(binaries[0], "yes")
    questions = world.state.questions
    world.add_conditional(questions[50_001], questions[50_002])
    world.resolve(add("res_yes"), "yes")


def samples(folder: Path, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a sample file."""
    found = json.loads((folder / f"{name}.json").read_text())
    yield from found if isinstance(found, list) else [found]


def is_whole(value: object) -> bool:
    """Tell whether nothing of a recorded value was trimmed."""
    return "_trimmed_list_len" not in json.dumps(value) and "chars trimmed>" not in json.dumps(value)


def shape_differences(ours: Any, theirs: Any, where: str = "") -> list[str]:
    """Return where our answer has other keys or types than a recorded one; null is like anything, numbers alike."""
    if theirs is None or ours is None:
        return []
    if isinstance(theirs, dict) and "_trimmed_list_len" in theirs:
        theirs = theirs["head"]
    if isinstance(theirs, dict) and isinstance(ours, dict):
        missing = [f"{where}: keys {sorted(set(ours) ^ set(theirs))}"] if set(ours) != set(theirs) else []
        return missing + [
            fault
            for key in set(ours) & set(theirs)
            for fault in shape_differences(ours[key], theirs[key], f"{where}.{key}")
        ]
    if isinstance(theirs, list) and isinstance(ours, list):
        return shape_differences(ours[0], theirs[0], f"{where}[0]") if ours and theirs else []
    numbers = isinstance(ours, int | float) and isinstance(theirs, int | float)
    if type(ours) is type(theirs) or (numbers and not isinstance(ours, bool) and not isinstance(theirs, bool)):
        return []
    return [f"{where}: {type(ours).__name__} instead of {type(theirs).__name__}"]
