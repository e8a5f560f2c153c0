"""Who asks the fake Polymarket's exchange: log-ins signed by a wallet, and the signature of every private request."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from bot.testing.venues import polymarket_signing as signing
from bot.testing.venues.polymarket_door import Door
from bot.testing.venues.polymarket_lists import Refusal
from bot.testing.venues.polymarket_state import User
from bot.testing.venues.record import Heard, Violation

# Tokens of a signer: so many a second, and so many at once.
ORDER_RATE, ORDER_BURST = 40.0, 60.0
CANCEL_RATE, CANCEL_BURST = 80.0, 120.0


@dataclass(slots=True)
class Bucket:
    """Tokens that come back with time."""

    rate: float
    most: float
    has: float
    at_s: float

    def take(self, cost: int, now_s: float) -> bool:
        """Take all of the cost or nothing."""
        self.has = min(self.most, self.has + (now_s - self.at_s) * self.rate)
        self.at_s = now_s
        if self.has < cost:
            return False
        self.has -= cost
        return True

    def wait_s(self, cost: int) -> float:
        """Return in how many seconds there is enough."""
        return max(0.0, (cost - self.has) / self.rate)


class Accounts:
    """Checks who asks, and how often."""

    def __init__(self, venue: Door) -> None:
        self._venue = venue
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def logging_in(self, heard: Heard) -> User:
        """Return the account whose owner signed the request; raises Refusal."""
        address, stamp = heard.headers.get("poly_address", ""), heard.headers.get("poly_timestamp", "")
        nonce, signature = heard.headers.get("poly_nonce", ""), heard.headers.get("poly_signature", "")
        if not nonce.isdecimal() or not self._is_now(stamp):
            raise Refusal(401, "Invalid L1 Request headers")
        try:
            signer = signing.login_signer(address, stamp, int(nonce), signature)
        except ValueError:
            raise Refusal(401, "Invalid L1 Request headers") from None
        user = self._venue.state.users.get(signer.lower())
        if user is None or signer.lower() != address.lower():
            raise Refusal(401, "Invalid L1 Request headers")
        return user

    def known(self, heard: Heard) -> User:
        """Return the account that signed a private request; raises Refusal."""
        user = self._venue.user_of(heard)
        headers = heard.headers
        stamp = headers.get("poly_timestamp", "")
        if user is None or headers.get("poly_passphrase") != user.passphrase or not self._is_now(stamp):
            raise Refusal(401, "Unauthorized/Invalid api key")
        right = signing.hmac_of(user.secret, stamp, heard.method, heard.path, heard.body.decode())
        signed = hmac.compare_digest(right.encode(), headers.get("poly_signature", "").encode())
        if not signed or headers.get("poly_address", "").lower() != user.address.lower():
            raise Refusal(401, "Unauthorized/Invalid api key")
        return user

    def knows(self, auth: object) -> User | None:
        """Return the account of the three secrets in the first frame of a socket."""
        if not isinstance(auth, dict):
            return None
        user = self._venue.state.by_key(str(auth.get("apiKey", "")))
        right = user is not None and (auth.get("secret"), auth.get("passphrase")) == (user.secret, user.passphrase)
        return user if right else None

    def spend(self, heard: Heard, user: User, kind: str, cost: int) -> dict[str, str]:
        """Take tokens for orders or cancels; return the headers that tell of them. Raises Refusal."""
        rate, burst = (ORDER_RATE, ORDER_BURST) if kind == "orders" else (CANCEL_RATE, CANCEL_BURST)
        now_s = self._venue.clock.monotonic()
        bucket = self._buckets.setdefault((user.address, kind), Bucket(rate, burst, burst, now_s))
        enough = bucket.take(cost, now_s)
        reset = self._venue.world.now_s + int(bucket.wait_s(cost)) + 1
        headers = {
            "Poly-RateLimit-Remaining": f"{bucket.has:.0f}",
            "Poly-RateLimit-Reset": str(reset),
            "Poly-RateLimit-Tier": "standard",
        }
        if not enough:
            wait_s = bucket.wait_s(cost)
            violation = Violation(
                limit=f"{kind} of a signer", request=heard.number, at=heard.at, count=cost, wait_s=wait_s
            )
            self._venue.judge.violations.append(violation)
            raise TooMany(429, f"rate limit exceeded for {kind}", headers)
        return headers

    def _is_now(self, stamp: str) -> bool:
        if not stamp.isdecimal():
            return False
        return abs(self._venue.now().timestamp() - int(stamp)) <= self._venue.clock_tolerance_s


class TooMany(Refusal):
    """An account asked too often."""

    def __init__(self, status: int, message: str, headers: dict[str, str]) -> None:
        super().__init__(status, message)
        self.headers = {**headers, "Retry-After": "1"}
