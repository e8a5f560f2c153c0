"""How many requests fly at a provider that works on K at once and refuses the rest with 429, in virtual seconds."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.config.schema import ProviderSection
from bot.core.beliefs import ModelUsage
from bot.core.interfaces import Clock
from bot.llm.adaptive_limit import FIRST_LIMIT, AdaptiveLimit, LimitReason
from bot.llm.request_queue import ModelQueue, ProviderQueue, RequestResult
from bot.testing.event_loop import VirtualClock, run_in_virtual_time

ANSWER_S = 2.0
REFUSAL_S = 0.05


@dataclass
class LimitedProvider:
    """Works on ``permitted`` requests at once, whatever the model, and refuses the rest.

    ``answer_s`` returns how long an answer takes, by how many are worked on.
    """

    clock: Clock
    permitted: float
    answer_s: Callable[[int], float] = lambda _: ANSWER_S
    at_work: int = 0
    answered: int = 0
    refused: int = 0
    most: int = 0
    # How many requests of each model were answered, and for how long all of them were worked on.
    by_model: Counter[str] = field(default_factory=Counter)
    worked_s: float = 0.0
    draws: random.Random = field(default_factory=lambda: random.Random(1))

    async def complete(self, model: str) -> bool:
        """Return whether the request was answered."""
        if self.at_work >= self.permitted:
            self.refused += 1
            await self.clock.sleep(REFUSAL_S)
            return False
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        began = self.clock.monotonic()
        try:
            await self.clock.sleep(self.answer_s(self.at_work) * self.draws.uniform(0.8, 1.2))
        finally:
            self.at_work -= 1
            self.worked_s += self.clock.monotonic() - began
        self.answered += 1
        self.by_model[model] += 1
        return True


async def send(queue: ProviderQueue, provider: LimitedProvider, model: str) -> None:
    """Send a request until it is answered, as the client of a provider does."""
    while True:
        async with queue.request_slot(model) as slot:
            sent_at, result = slot.start_request(), RequestResult.OTHER
            try:
                result = RequestResult.ANSWERED if await provider.complete(model) else RequestResult.REFUSED
            finally:
                slot.end_request(sent_at, result, ModelUsage(tokens_out=100))
            if result is RequestResult.ANSWERED:
                return
        await provider.clock.sleep(0.5)


async def keep_busy(queue: ProviderQueue, provider: LimitedProvider, answers: int, *models: str) -> float:
    """Have more callers than the provider permits until there are so many more answers.

    Return how many requests it worked on at once, on average.
    """
    wanted, worked_s, began = provider.answered + answers, provider.worked_s, provider.clock.monotonic()

    async def ask(model: str) -> None:
        while provider.answered < wanted:
            await send(queue, provider, model)

    callers = 600 if provider.permitted > 250 else 300
    tasks = [asyncio.create_task(ask(model)) for model in models or ("small",) for _ in range(callers)]
    while provider.answered < wanted:
        await asyncio.wait(tasks, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
    mean = (provider.worked_s - worked_s) / (provider.clock.monotonic() - began)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return mean


@pytest.mark.parametrize(
    ("permitted", "answers"), [(1, 60), (3, 80), (10, 150), (33, 400), (50, 600), (200, 2000), (400, 4000)]
)
def test_soon_about_as_many_fly_as_the_provider_permits(permitted: int, answers: int) -> None:
    async def main(clock: VirtualClock) -> tuple[float, int, ModelQueue]:
        queue = ProviderQueue(ProviderSection(), clock=clock)
        provider = LimitedProvider(clock, permitted)
        await keep_busy(queue, provider, answers)
        provider.refused = 0
        return await keep_busy(queue, provider, answers), provider.refused, queue.models["small"]

    mean, refused, queue = run_in_virtual_time(main)
    assert mean >= 0.8 * permitted
    assert refused <= max(0.1 * answers, 10)
    assert (queue.limit.reason, 0.5 * permitted <= queue.limit.limit <= permitted + 2) == (LimitReason.RATE_LIMIT, True)


def test_it_never_falls_to_one_once_it_was_found() -> None:
    async def main(clock: VirtualClock) -> int:
        queue, least = ProviderQueue(ProviderSection(), clock=clock), 1000
        provider = LimitedProvider(clock, 40)
        await keep_busy(queue, provider, 400)
        for _ in range(40):
            await keep_busy(queue, provider, 50)
            least = min(least, queue.models["small"].limit.limit)
        return least

    assert run_in_virtual_time(main) >= 20


def test_more_fly_when_the_provider_permits_more_and_fewer_when_it_permits_less() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        queue, means = ProviderQueue(ProviderSection(), clock=clock), []
        provider = LimitedProvider(clock, 20)
        for permitted in (20, 200, 10):
            provider.permitted = permitted
            await keep_busy(queue, provider, 15 * permitted)
            means.append(await keep_busy(queue, provider, 5 * permitted))
        return means

    for mean, permitted in zip(run_in_virtual_time(main), (20, 200, 10), strict=True):
        assert 0.8 * permitted <= mean <= permitted


def test_two_models_share_what_the_account_permits() -> None:
    async def main(clock: VirtualClock) -> tuple[float, Counter[str]]:
        queue, provider = ProviderQueue(ProviderSection(), clock=clock), LimitedProvider(clock, 60)
        await keep_busy(queue, provider, 300, "small")
        await keep_busy(queue, provider, 4000, "small", "large")
        provider.by_model.clear()
        return await keep_busy(queue, provider, 1000, "small", "large"), provider.by_model

    mean, answered = run_in_virtual_time(main)
    assert mean >= 0.8 * 60
    # The second one began when the first had all that the account permits.
    assert min(answered["small"], answered["large"]) >= 300


def test_a_server_that_only_becomes_slower_gets_few_at_a_time() -> None:
    """A local server with four places queues the rest: more requests only make each of them wait."""

    async def main(clock: VirtualClock) -> tuple[ModelQueue, list[float]]:
        queue = ProviderQueue(ProviderSection(), clock=clock)
        provider = LimitedProvider(clock, float("inf"), answer_s=lambda at_work: max(1.0, at_work / 4))
        rates = []
        for _ in range(15):
            began = clock.monotonic()
            await keep_busy(queue, provider, 100)
            rates.append(100 / (clock.monotonic() - began))
        return queue.models["small"], rates

    queue, rates = run_in_virtual_time(main)
    assert queue.limit.reason is LimitReason.LATENCY
    assert 4 <= queue.limit.limit <= 3 * FIRST_LIMIT
    assert min(rates[5:]) >= 0.8 * 4


def test_a_provider_that_is_slow_for_other_reasons_keeps_its_requests() -> None:
    async def main(clock: VirtualClock) -> float:
        queue, provider = ProviderQueue(ProviderSection(), clock=clock), LimitedProvider(clock, 100)
        await keep_busy(queue, provider, 1000)
        provider.answer_s = lambda _: 5 * ANSWER_S
        await keep_busy(queue, provider, 2000)
        return await keep_busy(queue, provider, 1000)

    assert run_in_virtual_time(main) >= 70


def test_answers_of_very_different_length_are_no_sign_of_too_many_requests() -> None:
    async def main(clock: VirtualClock) -> int:
        queue, draws = ProviderQueue(ProviderSection(concurrency=200), clock=clock), random.Random(1)

        async def ask() -> None:
            for _ in range(30):
                async with queue.request_slot("small") as slot:
                    sent_at, tokens = slot.start_request(), draws.choice([50, 300, 4000])
                    await clock.sleep((1.0 + tokens / 80) * draws.uniform(0.7, 1.4))
                    slot.end_request(sent_at, RequestResult.ANSWERED, ModelUsage(tokens_out=tokens))

        await asyncio.gather(*(ask() for _ in range(200)))
        return queue.models["small"].limit.limit

    assert run_in_virtual_time(main) == 200


def test_the_limit_does_not_grow_while_it_is_not_used() -> None:
    async def main(clock: VirtualClock) -> int:
        queue, provider = ProviderQueue(ProviderSection(), clock=clock), LimitedProvider(clock, 100)
        for _ in range(100):
            await send(queue, provider, "small")
        return queue.models["small"].limit.limit

    assert run_in_virtual_time(main) == FIRST_LIMIT


def test_the_limit_grows_more_slowly_the_less_the_provider_has_left_of_its_rate_limit() -> None:
    limits = []
    for share_left in (1.0, 0.05, 0.0):
        limit = AdaptiveLimit(ceiling=100)
        for number in range(12):
            limit.record_answer(
                sent_at=0.0, now=1.0 + number, in_flight=16, usage=ModelUsage(tokens_out=9), share_left=share_left
            )
        limits.append(limit.limit)
    assert limits == [FIRST_LIMIT + 12, FIRST_LIMIT + 3, FIRST_LIMIT]


@pytest.mark.parametrize(("in_flight", "grows"), [(7, 0), (8, 1), (16, 1)])
def test_an_answer_raises_the_limit_where_half_of_it_is_used(in_flight: int, grows: int) -> None:
    limit = AdaptiveLimit(ceiling=100, start=16)
    limit.record_answer(sent_at=0.0, now=1.0, in_flight=in_flight, usage=ModelUsage(tokens_out=9))
    assert limit.limit == 16 + grows


def test_the_start_doubles_the_limit_once_a_round_up_to_the_setting() -> None:
    limit = AdaptiveLimit(ceiling=50, start=16)
    for number in range(18):
        limit.record_answer(sent_at=0.0, now=1.0 + number, in_flight=40, usage=ModelUsage())
    assert limit.limit == 32
    # Answers to requests of the last round end no round.
    for sent_at in [0.0] * 30 + [20.0] * 40:
        limit.record_answer(sent_at=sent_at, now=30.0, in_flight=40, usage=ModelUsage())
    assert (limit.limit, limit.reason) == (50, LimitReason.SETTING)


def test_after_the_start_a_round_raises_the_limit_by_its_square_root_and_near_a_refusal_by_one() -> None:
    """By RFC 9438 growth is slow around the limit that was refused last, here from 90 to 110, and fast elsewhere."""
    limit = AdaptiveLimit(ceiling=1000, start=100, reason=LimitReason.RATE_LIMIT)
    limit.record_refusal(sent_at=1.0, now=2.0, in_flight=99)
    assert limit.limit == 80

    def answer_round() -> int:
        before = limit.limit
        for _ in range(before):
            limit.record_answer(sent_at=0.0, now=3.0, in_flight=before, usage=ModelUsage())
        return limit.limit - before

    assert answer_round() in {8, 9}
    while limit.limit < 91:
        answer_round()
    assert [answer_round() for _ in range(3)] in ([1] * 3, [0, 1, 1], [1, 0, 1], [1, 1, 0])


def test_growth_is_slow_from_the_very_bound_of_what_was_refused_and_as_ever_where_the_number_was_not_the_cause() -> (
    None
):
    """Ten were refused, so that growth is slow from 10 - 1 - 1 = 8 on, which is what a refusal leaves."""
    refused, acquitted = (AdaptiveLimit(ceiling=1000, start=start, reason=LimitReason.RATE_LIMIT) for start in (10, 2))
    refused.record_refusal(sent_at=1.0, now=2.0, in_flight=9)
    for in_flight in (1, 0):
        acquitted.record_refusal(sent_at=1.0, now=2.0, in_flight=in_flight)
    assert (refused.limit, acquitted.limit) == (8, 2)
    # Fourteen answers that raise it by a twentieth each; and two by more than a half each.
    for limit, answers in ((refused, 14), (acquitted, 2)):
        for _ in range(answers):
            limit.record_answer(sent_at=0.0, now=3.0, in_flight=8, usage=ModelUsage())
    assert (refused.limit, acquitted.limit) == (8, 3)


def answer_round(limit: AdaptiveLimit, sent_at: float, latency_s: float, usage: ModelUsage) -> None:
    """Have a round of twenty requests answered, too few at a time for the limit to grow."""
    for _ in range(20):
        limit.record_answer(sent_at=sent_at, now=sent_at + latency_s, in_flight=1, usage=usage)


@pytest.mark.parametrize(
    ("usage", "work"),
    [
        # The first token counts as 100, each one written as 1, and each one read as a hundredth.
        (ModelUsage(), 100),
        (ModelUsage(tokens_out=100), 200),
        (ModelUsage(tokens_in=10_000), 200),
        (ModelUsage(tokens_in=10_000, tokens_out=600), 800),
    ],
)
def test_a_round_is_slow_from_twice_the_time_for_the_same_work_on(usage: ModelUsage, work: int) -> None:
    """The fastest round took a second for each 100 tokens of work; binary fractions keep the bound exact."""
    limits = []
    for factor in (2.0, 2.125):
        limit = AdaptiveLimit(ceiling=100, start=16)
        answer_round(limit, 0.0, 1.0, ModelUsage())
        answer_round(limit, 1.0, factor * work / 100, usage)
        limits.append((limit.limit, limit.reason))
    # Of a slow round two fifths of the limit are left.
    assert limits == [(16, LimitReason.NOTHING), (6, LimitReason.LATENCY)]


def test_where_fewer_requests_are_as_slow_they_are_not_the_cause() -> None:
    limit = AdaptiveLimit(ceiling=100, start=50, reason=LimitReason.RATE_LIMIT)
    sent_at, found = 0.0, []
    for latency_s in (1.0, 4.0, 4.0, 4.0):
        for _ in range(50):
            limit.record_answer(sent_at=sent_at, now=sent_at + latency_s, in_flight=24, usage=ModelUsage())
        sent_at += latency_s
        found.append(limit.limit)
    assert found[0] == 50
    # A quarter of the speed: a quarter of the 24 that were in flight would do, but two fifths of the limit are left.
    assert found[1] == 20
    assert found[1] <= found[2] <= found[3]


def test_a_slow_round_leaves_what_kept_the_pace_of_the_fastest() -> None:
    limit = AdaptiveLimit(ceiling=50, start=50, reason=LimitReason.RATE_LIMIT)
    for sent_at, latency_s in ((0.0, 1.0), (1.0, 2.25)):
        for _ in range(50):
            limit.record_answer(sent_at=sent_at, now=sent_at + latency_s, in_flight=50, usage=ModelUsage())
    # 50 in flight took 2.25 times as long each.
    assert limit.limit == int(50 / 2.25)


@pytest.mark.parametrize(("start", "least"), [(0.0, 1), (-3.0, 1), (7.9, 7), (1000.0, 100)])
def test_it_starts_between_one_and_the_setting(start: float, least: int) -> None:
    assert AdaptiveLimit(ceiling=100, start=start).limit == least


def test_requests_that_were_refused_together_count_as_one_refusal() -> None:
    limit = AdaptiveLimit(ceiling=100, start=80, reason=LimitReason.RATE_LIMIT)
    for others in range(79, 70, -1):
        limit.record_refusal(sent_at=1.0, now=2.0, in_flight=others)
    assert limit.limit == 64
    limit.record_refusal(sent_at=1.0, now=2.1, in_flight=50)
    assert limit.limit == 50
    limit.record_refusal(sent_at=1.0, now=2.2, in_flight=3)
    assert limit.limit == 40
    # One that was sent at the moment of the refusal was sent with the old limit.
    limit.record_refusal(sent_at=2.0, now=3.0, in_flight=40)
    assert limit.limit == 40
    limit.record_refusal(sent_at=3.0, now=4.0, in_flight=40)
    assert limit.limit == 32


def test_a_provider_that_takes_nothing_at_all_says_nothing_about_the_number() -> None:
    limit = AdaptiveLimit(ceiling=100)
    for sent_at in (1.0, 5.0):
        for others in range(15, -1, -1):
            limit.record_refusal(sent_at=sent_at, now=sent_at + 1.0, in_flight=others)
        assert limit.limit == FIRST_LIMIT
    limit.record_refusal(sent_at=9.0, now=10.0, in_flight=0)
    assert limit.limit == FIRST_LIMIT


@pytest.mark.parametrize(
    ("answered", "sent_at", "limit_after"),
    [
        # Sent before the limit was reduced, or at that moment, and nothing was answered since: it was not too many.
        (False, 1.0, 16),
        (False, 2.0, 16),
        # Sent later, it says nothing about the ones before; and an answer showed that the server does work.
        (False, 2.5, 12),
        (True, 1.0, 12),
    ],
)
def test_only_the_refused_round_itself_shows_that_its_number_was_not_the_cause(
    sent_at: float, limit_after: int, *, answered: bool
) -> None:
    limit = AdaptiveLimit(ceiling=100, start=16)
    limit.record_refusal(sent_at=1.0, now=2.0, in_flight=15)
    assert limit.limit == 12
    if answered:
        limit.record_answer(sent_at=1.0, now=2.5, in_flight=2, usage=ModelUsage())
    limit.record_refusal(sent_at=sent_at, now=3.0, in_flight=0)
    assert limit.limit == limit_after


@pytest.mark.parametrize("others", [0, 5, 9])
def test_a_reduced_limit_is_four_fifths_of_what_was_in_flight_with_the_request_itself(others: int) -> None:
    refused, late = (AdaptiveLimit(ceiling=100, start=50) for _ in range(2))
    if others:
        refused.record_refusal(sent_at=1.0, now=2.0, in_flight=others)
        assert (refused.limit, refused.reason) == (int(0.8 * (others + 1)), LimitReason.RATE_LIMIT)
    late.record_timeout(sent_at=1.0, now=2.0, in_flight=others)
    # At least one request is in flight, or nothing would ever be learned.
    assert (late.limit, late.reason) == (max(1, int(0.8 * (others + 1))), LimitReason.LATENCY)


def test_a_time_out_makes_room() -> None:
    limit = AdaptiveLimit(ceiling=100, start=50, reason=LimitReason.RATE_LIMIT)
    limit.record_timeout(sent_at=1.0, now=600.0, in_flight=49)
    for sent_at in (2.0, 600.0):
        limit.record_timeout(sent_at=sent_at, now=601.0, in_flight=39)
    assert (limit.limit, limit.reason) == (40, LimitReason.LATENCY)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 60),
    st.lists(st.tuples(st.sampled_from(["small", "large"]), st.floats(0, 5), st.booleans()), min_size=1, max_size=80),
)
def test_no_more_than_the_setting_ever_fly(setting: int, permitted: int, asked: list[tuple[str, float, bool]]) -> None:
    async def main(clock: VirtualClock) -> LimitedProvider:
        queue = ProviderQueue(ProviderSection(concurrency=setting), clock=clock)
        provider = LimitedProvider(clock, permitted)

        async def ask(model: str, after_s: float, *, gives_up: bool) -> None:
            await clock.sleep(after_s)
            try:
                async with asyncio.timeout(2.5 if gives_up else None):
                    await send(queue, provider, model)
            except TimeoutError:
                return

        await asyncio.gather(*(ask(model, after_s, gives_up=gives_up) for model, after_s, gives_up in asked))
        assert [one.in_flight for one in queue.models.values()] == [0] * len(queue.models)
        return provider

    provider = run_in_virtual_time(main)
    assert provider.most <= min(setting, permitted)
