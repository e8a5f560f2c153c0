"""How many requests to a model may be in flight: a limit that grows while all goes well and shrinks when it does not.

Additive increase and multiplicative decrease, as in the congestion control of TCP (RFC 5681) and in the library
concurrency-limits of Netflix (github.com/Netflix/concurrency-limits: ``AIMDLimit``, ``Gradient2Limit``), written here
because no kept Python library does it on asyncio with a clock of one's own. What was taken from where:

- Slow start, one decrease for all requests of one round, and growth only while the limit is used: RFC 5681 and 6582.
- Growth by the square root of the limit in each round, and the gradient (the least latency divided by the latest), by
  which the limit is multiplied: ``Gradient2Limit``.
- Slow growth near the limit at which the provider refused last, as around the plateau of CUBIC (RFC 9438).
"""

import math
from enum import StrEnum

from bot.core.beliefs import ModelUsage
from bot.core.light_dataclass import dataclass

# Requests in flight to a model about which nothing is known yet.
FIRST_LIMIT = 16
# A refused round leaves at most so much of the limit, and at least half of it.
REFUSAL_FACTOR = 0.8
MIN_REFUSAL_FACTOR = 0.5
# This near to the limit at which requests were refused last, growth is one place a round, of twenty answers at least.
PLATEAU_SHARE = 0.1
MIN_PLATEAU_ANSWERS = 20
# With less than this share of a rate limit left, growth slows in proportion.
SCARCE_SHARE = 0.2
# Latency is averaged over at least so many answers.
MIN_ROUND_ANSWERS = 20
# A round that is slower than the fastest one by more than this is caused by too many requests.
LATENCY_TOLERANCE = 2.0
# A slow round leaves at least so much of the limit.
MIN_LATENCY_FACTOR = 0.4
# Reading a token takes a model about a hundredth of the time of writing one; the first one takes a moment in any case.
TOKENS_READ_PER_WRITTEN = 100.0
FIRST_TOKEN_COST = 100.0


class LimitReason(StrEnum):
    """Why no more requests are in flight."""

    NOTHING = "nothing so far"
    SETTING = "setting"
    RATE_LIMIT = "rate limit"
    LATENCY = "latency"
    ALLOWANCE = "requests that the provider has left"
    BUDGET = "budget"
    PROCESS = "the CPU of this process"
    QUESTIONS = "the questions under way, see concurrency of [daemon]"


_MEASURED_REASONS = frozenset({LimitReason.RATE_LIMIT, LimitReason.LATENCY})


@dataclass(slots=True)
class _LatencyRound:
    """Answers to requests that were sent after ``began``: their latency for the same work, and the load.

    ``limit`` is the limit when it began.
    """

    began: float
    limit: float
    answers: int = 0
    latency: float = 0.0
    in_flight: int = 0

    @property
    def mean_latency(self) -> float:
        return self.latency / self.answers


class AdaptiveLimit:
    """The limit of one model. Times are seconds of one monotonic clock."""

    def __init__(self, *, ceiling: int, start: float = FIRST_LIMIT, reason: LimitReason = LimitReason.NOTHING) -> None:
        """Start at ``start``, or at the ceiling if that is lower; ``reason`` is why it was not higher before."""
        self.ceiling = ceiling
        self._limit = min(float(ceiling), max(1.0, start))
        self._reason = reason
        self._slow_start = reason not in _MEASURED_REASONS
        # The last refused round: when it was refused, how many were too many, and whether there was an answer since.
        self._reduced_at = -math.inf
        self._refused_limit = 0.0
        self._answered_since = True
        self._limit_before, self._was_slow_start = self._limit, self._slow_start
        self._round: _LatencyRound | None = None
        self._least_latency = math.inf

    @property
    def limit(self) -> int:
        """How many requests may be in flight, from 1 to the ceiling."""
        return int(self._limit)

    @property
    def reason(self) -> LimitReason:
        """Why the limit is not higher."""
        return LimitReason.SETTING if self._limit >= self.ceiling else self._reason

    def record_answer(
        self, *, sent_at: float, now: float, in_flight: int, usage: ModelUsage, share_left: float = 1.0
    ) -> None:
        """Record an answer, with the requests in flight then, that one among them.

        ``share_left`` is what the provider has left of the rate limit that is used up most.
        """
        self._answered_since = True
        round_ = self._round
        if round_ is None:
            round_ = self._round = _LatencyRound(sent_at, self._limit)
        if 2 * in_flight >= self._limit:
            growth = self._growth(round_) * min(1.0, share_left / SCARCE_SHARE)
            self._limit = min(float(self.ceiling), self._limit + growth)
        if sent_at < round_.began:
            return
        work = FIRST_TOKEN_COST + usage.tokens_out + usage.tokens_in / TOKENS_READ_PER_WRITTEN
        round_.answers += 1
        round_.latency += (now - sent_at) / work
        round_.in_flight += in_flight
        if round_.answers >= max(MIN_ROUND_ANSWERS, round_.limit):
            self._end_round(round_, now)

    def record_refusal(self, *, sent_at: float, now: float, in_flight: int) -> None:
        """Record that the provider refused a request because it is busy; ``in_flight`` are the others.

        The first refusal of a round reduces the limit; further ones reduce it to what the provider still works on.
        Where the provider works on nothing, the number of requests is not the cause, and the limit stays as it was.
        """
        if in_flight == 0:
            if sent_at <= self._reduced_at and not self._answered_since:
                self._limit, self._slow_start = self._limit_before, self._was_slow_start
                self._refused_limit = 0.0
        elif sent_at > self._reduced_at:
            self._limit_before, self._was_slow_start = self._limit, self._slow_start
            self._reduced_at, self._answered_since = now, False
            self._refused_limit = min(self._limit, in_flight + 1.0)
            self._reduce(REFUSAL_FACTOR * self._refused_limit, LimitReason.RATE_LIMIT, now)
        else:
            self._reduce(max(MIN_REFUSAL_FACTOR * self._refused_limit, in_flight), LimitReason.RATE_LIMIT, now)

    def record_timeout(self, *, sent_at: float, now: float, in_flight: int) -> None:
        """Record that a request got no answer in time; ``in_flight`` are the others."""
        if sent_at > self._reduced_at:
            self._reduced_at = now
            self._reduce(REFUSAL_FACTOR * min(self._limit, in_flight + 1.0), LimitReason.LATENCY, now)

    def _growth(self, current: _LatencyRound) -> float:
        """Return by how much an answer raises the limit."""
        if self._slow_start:
            return max(0.0, min(1.0, 2.0 * current.limit - self._limit))
        if abs(self._limit - self._refused_limit) <= PLATEAU_SHARE * self._refused_limit + 1.0:
            return 1.0 / max(self._limit, MIN_PLATEAU_ANSWERS)
        return 1.0 / math.sqrt(self._limit)

    def _end_round(self, ended: _LatencyRound, now: float) -> None:
        self._round = _LatencyRound(now, self._limit)
        latency = ended.mean_latency
        if latency <= LATENCY_TOLERANCE * self._least_latency:
            self._least_latency = min(self._least_latency, latency)
            return
        # The least latency is measured anew with fewer requests: where they are as slow, they are not the cause.
        gradient, load = self._least_latency / latency, ended.in_flight / ended.answers
        self._least_latency = math.inf
        self._reduce(max(MIN_LATENCY_FACTOR * self._limit, gradient * load), LimitReason.LATENCY, now)

    def _reduce(self, limit: float, reason: LimitReason, now: float) -> None:
        self._limit = max(1.0, min(self._limit, limit))
        self._reason, self._slow_start = reason, False
        self._round = _LatencyRound(now, self._limit)
