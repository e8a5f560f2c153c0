"""The signer, a separate program: only it opens the private key, and signs orders within its own caps.

Run by ``signer_client`` with ``python -I``; it imports nothing of Foxcast, and of other packages only the venue's
client with its dependencies. It reads lines of JSON, writes one answer per request, and ends when its input ends. It
does not use the network and has only these three calls:

``open`` (first, once) gives the file of the key, the wallet and its type, the file where spending is recorded, and the
caps in dollars; ``login`` signs that this key controls its address; ``order`` signs one order, whose every field is
given, or returns it with its hash and without a signature for a preview. The possible cost of a purchase is written to
disk before its signature is returned, and counts for the day (UTC, by the signer's clock) whether or not the order is
ever sent: a signature does not expire. Sales cost nothing and have no cap.

An answer is ``{"ok": ...}``, or ``{"error": ..., "kind": refused | later | unauthorized | config}``. None holds the
key.
Source: docs/facts/polymarket.md#access-levels and #order-signatures.
"""

import fcntl
import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

CHAIN_ID = 137
WALLET_TYPES = {"eoa": "EOA", "proxy": "POLY_PROXY", "safe": "GNOSIS_SAFE", "deposit": "DEPOSIT_WALLET"}
REFUSED, RETRY_LATER, UNAUTHORIZED, CONFIG_FAULT = "refused", "later", "unauthorized", "config"
CLIENT_MISSING = "the venue's client is not installed, or in another version: pip install foxcast[polymarket]"
_PRIVATE_KEY = re.compile(r"(0x)?[0-9a-fA-F]{64}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_MAX_KEY_FILE_BYTES = 4096
_MILLION = Decimal(1_000_000)
_SALT_BITS = 53
_ORDER_TYPES = frozenset({"GTC", "GTD", "FOK", "FAK"})


class SigningRefusedError(Exception):
    """Why something is not signed, and who must act."""

    def __init__(self, message: str, kind: str = REFUSED) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class SignerSetup:
    """What a signer is opened with; amounts in dollars."""

    key_file: Path
    wallet: str
    wallet_type: str
    spending: Path
    per_order: Decimal
    per_day: Decimal

    @classmethod
    def from_request(cls, request: Mapping[str, Any]) -> "SignerSetup":
        """Parse it from a request; raises SigningRefusedError."""
        wallet, kind = str(request.get("wallet")), str(request.get("wallet_type"))
        if not _ADDRESS.fullmatch(wallet) or kind not in WALLET_TYPES:
            message = "the wallet is not an address, or of an unknown type"
            raise SigningRefusedError(message, CONFIG_FAULT)
        try:
            per_order, per_day = Decimal(str(request["per_order"])), Decimal(str(request["per_day"]))
            files = Path(request["key_file"]), Path(request["spending"])
        except (KeyError, TypeError, InvalidOperation):
            message = "caps or files are missing"
            raise SigningRefusedError(message, CONFIG_FAULT) from None
        if not (per_order.is_finite() and per_day.is_finite() and per_order > 0 and per_day > 0):
            message = "caps must be amounts of dollars above 0"
            raise SigningRefusedError(message, CONFIG_FAULT)
        return cls(
            key_file=files[0],
            wallet=wallet,
            wallet_type=kind,
            spending=files[1],
            per_order=per_order,
            per_day=per_day,
        )


class SpendingRecord:
    """The dollars signed for on one day, in a file; several signers may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def spend(self, dollars: Decimal, *, limit: Decimal, day: str) -> None:
        """Count dollars of that day, durably; raises SigningRefusedError if they are too many, or cannot be counted."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.with_suffix(".lock").open("w") as lock_file:
                fcntl.flock(lock_file, fcntl.LOCK_EX)
                # A clock that was set back must not begin a new day, neither now nor once it is right again.
                counted, spent = self._spent_since(day)
                if spent + dollars > limit:
                    remedy = f"; if that day is not yet, the clock was wrong: delete {self._path.name}"
                    message = (
                        f"{dollars} more dollars would exceed signer_per_day = {limit}: {spent} were signed on "
                        f"{counted}{remedy if counted > day else ''}"
                    )
                    raise SigningRefusedError(message, RETRY_LATER)
                self._keep(counted, spent + dollars)
        except OSError as error:
            message = f"spending cannot be recorded in {self._path.name} ({type(error).__name__}); nothing is signed"
            raise SigningRefusedError(message, CONFIG_FAULT) from None

    def _spent_since(self, day: str) -> tuple[str, Decimal]:
        """Return the latest of this day and the recorded one, and what was spent on it."""
        if not self._path.exists():
            return day, Decimal(0)
        try:
            kept = json.loads(self._path.read_bytes())
            noted, spent = str(kept["day"]), Decimal(kept["dollars"])
        except (ValueError, KeyError, TypeError, InvalidOperation):
            spent, noted = Decimal("NaN"), ""
        if not spent.is_finite() or spent < 0:
            message = f"{self._path.name} is damaged, so today's spending is unknown: check it, then delete it"
            raise SigningRefusedError(message, CONFIG_FAULT)
        return (noted, spent) if noted >= day else (day, Decimal(0))

    def _keep(self, day: str, spent: Decimal) -> None:
        fresh = self._path.with_suffix(".new")
        with fresh.open("w") as file:
            json.dump({"day": day, "dollars": str(spent)}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def utc_day() -> str:
    """Return the day (UTC) by this machine's clock."""
    return time.strftime("%Y-%m-%d", time.gmtime())


class KeyVault:
    """Holds the key and answers requests; ``day`` returns the day, which no request can set."""

    def __init__(self, day: Callable[[], str] = utc_day) -> None:
        self._day = day
        self._setup: SignerSetup | None = None
        self._account: LocalAccount | None = None

    def answer_request(self, line: str) -> str:
        """Return the answer to one line. Error messages never contain the text of a library."""
        try:
            request = json.loads(line)
            answer: Mapping[str, Any] = {"ok": self._answer(request if isinstance(request, dict) else {})}
        except SigningRefusedError as refusal:
            answer = {"error": str(refusal), "kind": refusal.kind}
        except ImportError:
            answer = {"error": CLIENT_MISSING, "kind": CONFIG_FAULT}
        except Exception as error:  # noqa: BLE001 - messages of libraries may quote the key
            answer = {"error": f"the signer failed ({type(error).__name__}); nothing was signed", "kind": REFUSED}
        return json.dumps(answer)

    def _answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        match request.get("do"):
            case "open":
                return self._open(SignerSetup.from_request(request))
            case "login":
                return self._login(_require_integer(request, "timestamp"))
            case "order":
                return self._order(request)
        message = "unknown request to the signer"
        raise SigningRefusedError(message)

    def _open(self, setup: SignerSetup) -> Mapping[str, Any]:
        from eth_account import Account  # noqa: PLC0415 - absent where the extra is not installed
        from polymarket._internal.environment import PRODUCTION_CONFIG  # noqa: PLC0415 - the same
        from polymarket._internal.wallet import try_classify_wallet_type  # noqa: PLC0415 - the same

        if self._setup is not None:
            message = "the signer is open already"
            raise SigningRefusedError(message)
        account = Account.from_key(read_key(setup.key_file))
        found = try_classify_wallet_type(
            signer=account.address, wallet=setup.wallet, config=PRODUCTION_CONFIG.wallet_derivation
        )
        if found is not None and found != WALLET_TYPES[setup.wallet_type]:
            is_valid = next(name for name, title in WALLET_TYPES.items() if title == found)
            message = (
                f"the wallet of this key is of the type {is_valid}: set wallet_type in [venues.polymarket.settings]"
            )
            raise SigningRefusedError(message, UNAUTHORIZED)
        self._setup, self._account = setup, account
        return {"address": account.address, "is_derived": found is not None}

    def _login(self, timestamp: int) -> Mapping[str, Any]:
        from polymarket._internal.l1_auth import sign_api_key_auth  # noqa: PLC0415 - as above

        _, account = self._opened()
        signed = sign_api_key_auth(account, chain_id=CHAIN_ID, timestamp=timestamp)
        return {"address": signed.address, "nonce": signed.nonce, "signature": signed.signature}

    def _order(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        setup, account = self._opened()
        order = build_unsigned_order(request, setup, account.address)
        dollars = Decimal(order.maker_amount if order.side == "BUY" else 0) / _MILLION
        if dollars > setup.per_order:
            message = f"an order of {dollars} dollars exceeds signer_per_order = {setup.per_order}"
            raise SigningRefusedError(message)
        if request.get("look") is True:
            return format_order(order, "")
        if dollars:
            # The signer's own clock: a day from the request could restart the day's budget.
            SpendingRecord(setup.spending).spend(dollars, limit=setup.per_day, day=self._day())
        return sign_order(order, account)

    def _opened(self) -> "tuple[SignerSetup, LocalAccount]":
        if self._setup is None or self._account is None:
            message = "the signer is not open"
            raise SigningRefusedError(message)
        return self._setup, self._account


def read_key(path: Path) -> str:
    """Return the key in a file that only its owner can read; raises SigningRefusedError."""
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            text = file.read(_MAX_KEY_FILE_BYTES).decode(errors="replace").strip()
    except OSError as error:
        message = f"key_file {path} cannot be read: {error.strerror}"
        raise SigningRefusedError(message, UNAUTHORIZED) from None
    if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077:
        message = f"key_file {path} must be readable only by its owner: chmod 600 {path}"
        raise SigningRefusedError(message, UNAUTHORIZED)
    if not _PRIVATE_KEY.fullmatch(text):
        message = f"key_file {path} does not hold a private key, 0x and 64 hexadecimal digits"
        raise SigningRefusedError(message, UNAUTHORIZED)
    return text


def build_unsigned_order(request: Mapping[str, Any], setup: SignerSetup, address: str) -> Any:  # noqa: ANN401 - of the client
    """Return the client's order from a request; raises SigningRefusedError for invalid fields.

    The contract and the version that it is signed for follow from the token and ``neg_risk``.
    """
    from eth_utils.address import to_checksum_address  # noqa: PLC0415 - as above
    from polymarket._internal.actions.orders.context import resolve_order_exchange_address  # noqa: PLC0415 - as above
    from polymarket._internal.actions.orders.orders import create_unsigned_order  # noqa: PLC0415 - as above
    from polymarket._internal.actions.orders.types import OrderDraft  # noqa: PLC0415 - as above
    from polymarket._internal.environment import PRODUCTION_CONFIG  # noqa: PLC0415 - as above

    token, side, kind = str(request.get("token")), request.get("side"), request.get("type")
    neg_risk, salt = request.get("neg_risk"), _require_integer(request, "salt")
    is_valid = token.isascii() and token.isdecimal() and int(token) < 2**256 and salt < 2**_SALT_BITS
    if not is_valid or side not in {"BUY", "SELL"} or kind not in _ORDER_TYPES or not isinstance(neg_risk, bool):
        message = "the order is invalid: token, side, type, neg_risk or salt"
        raise SigningRefusedError(message)
    maker_amount, taker_amount = _require_integer(request, "maker_amount"), _require_integer(request, "taker_amount")
    if not maker_amount or not taker_amount:
        message = "both amounts of an order must be above 0"
        raise SigningRefusedError(message)
    wallet: Any = to_checksum_address(setup.wallet)
    owner: Any = address
    asset: Any = token
    wallet_type: Any = WALLET_TYPES[setup.wallet_type]
    draft = OrderDraft(
        chain_id=CHAIN_ID,
        exchange_address=resolve_order_exchange_address(PRODUCTION_CONFIG, asset_id=token, neg_risk=neg_risk),
        expiration=_require_integer(request, "expiration"),
        funder_address=wallet,
        offered_amount=maker_amount,
        order_type=kind,
        side=side,
        signer=owner,
        requested_amount=taker_amount,
        asset_id=asset,
    )
    order = create_unsigned_order(draft, wallet=wallet, wallet_type=wallet_type)
    # The client's salt and time are random and its clock; the caller's make the same request the same order.
    return replace(order, salt=salt, timestamp=_require_integer(request, "timestamp_ms"))


def sign_order(order: Any, account: "LocalAccount") -> Mapping[str, Any]:  # noqa: ANN401 - of the client
    """Return the order as it is posted, and its hash, by which the venue identifies it."""
    from polymarket._internal.actions.orders.typed_data import (  # noqa: PLC0415 - as above
        build_order_signature,
        build_order_typed_data,
    )

    signed = account.sign_typed_data(full_message=build_order_typed_data(order)).signature.hex().removeprefix("0x")
    plain: Any = f"0x{signed}"
    return format_order(order, build_order_signature(order, plain))


def format_order(order: Any, signature: str) -> Mapping[str, Any]:  # noqa: ANN401 - of the client
    """Return an order with that signature in the form of a post, and its hash."""
    from polymarket._internal.actions.orders.orders import create_signed_order  # noqa: PLC0415 - as above
    from polymarket._internal.actions.orders.typed_data import build_order_typed_data  # noqa: PLC0415 - as above

    text: Any = signature
    whole = create_signed_order(order, text)
    return {
        "hash": order_hash(build_order_typed_data(order)),
        "order": {
            "builder": whole.builder,
            "expiration": str(whole.expiration),
            "maker": whole.maker,
            "makerAmount": str(whole.maker_amount),
            "metadata": whole.metadata,
            "salt": whole.salt,
            "side": whole.side,
            "signature": whole.signature,
            "signatureType": whole.signature_type,
            "signer": whole.signer,
            "takerAmount": str(whole.taker_amount),
            "timestamp": str(whole.timestamp),
            "tokenId": whole.token_id,
        },
    }


def order_hash(typed: Mapping[str, Any]) -> str:
    """Return the EIP-712 digest of the order in typed data, also if it is wrapped for a deposit wallet."""
    from eth_account.messages import encode_typed_data  # noqa: PLC0415 - as above
    from eth_utils.crypto import keccak  # noqa: PLC0415 - as above

    plain = typed
    if typed["primaryType"] != "Order":
        types = {name: typed["types"][name] for name in ("EIP712Domain", "Order")}
        plain = {**typed, "types": types, "primaryType": "Order", "message": typed["message"]["contents"]}
    signable = encode_typed_data(full_message=dict(plain))
    return "0x" + keccak(b"\x19\x01" + signable.header + signable.body).hex()


def _require_integer(request: Mapping[str, Any], name: str) -> int:
    value = request.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**255:
        message = f"{name} is not a whole number"
        raise SigningRefusedError(message)
    return value


def main() -> None:
    """Answer until the input ends."""
    import ctypes  # noqa: PLC0415 - only where this is the program
    import resource  # noqa: PLC0415 - the same

    # No core dump, so that its memory is never written to disk, and no debugger of the same user (linux/prctl.h).
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    vault = KeyVault()
    for line in sys.stdin:
        sys.stdout.write(vault.answer_request(line) + "\n")
        sys.stdout.flush()
