"""The signer, a program of its own: it alone opens the private key, and signs orders within caps of its own.

Run by ``signer_process`` with ``python -I``; it imports nothing of Foxcast, and of other packages only the venue's
client with what that brings. It talks in lines of JSON, one answer to each request, and ends when its input does. It
asks nothing of the network and knows no call but these three:

``open`` (first, once) gives the file of the key, the wallet and its type, the file where spending is kept, and the caps
in dollars; ``login`` signs that this key controls its address; ``order`` signs one order, whose every field is given,
or shows it with its hash and without a signature where it is only to be looked at.
What a purchase may cost is on disk before its signature is given away, and counts for the day (UTC, by the signer's own
clock) whether or not it is ever sent: a signature does not expire. Sales cost nothing and have no cap.

An answer is ``{"ok": ...}``, or ``{"error": ..., "kind": refused | later | unauthorized | config}``. None holds the
key.
Source: venue document, sections 8.1 and 8.2.
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

CHAIN = 137
WALLETS = {"eoa": "EOA", "proxy": "POLY_PROXY", "safe": "GNOSIS_SAFE", "deposit": "DEPOSIT_WALLET"}
REFUSED, LATER, UNAUTHORIZED, CONFIG = "refused", "later", "unauthorized", "config"
NO_CLIENT = "the venue's client is not installed there, or another version of it: pip install foxcast[polymarket]"
_KEY = re.compile(r"(0x)?[0-9a-fA-F]{64}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_MOST_BYTES = 4096
_MILLION = Decimal(1_000_000)
_SALT_BITS = 53
_TYPES = frozenset({"GTC", "GTD", "FOK", "FAK"})


class Refusal(Exception):
    """Why something is not signed, in words for people, and who must act."""

    def __init__(self, message: str, kind: str = REFUSED) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a signer is opened with; amounts in dollars."""

    key_file: Path
    wallet: str
    wallet_type: str
    spending: Path
    per_order: Decimal
    per_day: Decimal

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> "Setup":
        """Read it from a request; raises Refusal."""
        wallet, kind = str(asked.get("wallet")), str(asked.get("wallet_type"))
        if not _ADDRESS.fullmatch(wallet) or kind not in WALLETS:
            message = "the wallet is no address, or of no known type"
            raise Refusal(message, CONFIG)
        try:
            per_order, per_day = Decimal(str(asked["per_order"])), Decimal(str(asked["per_day"]))
            files = Path(asked["key_file"]), Path(asked["spending"])
        except (KeyError, TypeError, InvalidOperation):
            message = "caps or files are missing"
            raise Refusal(message, CONFIG) from None
        if not (per_order.is_finite() and per_day.is_finite() and per_order > 0 and per_day > 0):
            message = "caps are amounts of dollars above 0"
            raise Refusal(message, CONFIG)
        return cls(
            key_file=files[0],
            wallet=wallet,
            wallet_type=kind,
            spending=files[1],
            per_order=per_order,
            per_day=per_day,
        )


class Spending:
    """What was signed away on one day, in a file; several signers of one file share it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def spend(self, dollars: Decimal, *, most: Decimal, day: str) -> None:
        """Count dollars of that day, durably; raises Refusal where they would be too many, or cannot be counted."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.with_suffix(".lock").open("w") as turn:
                fcntl.flock(turn, fcntl.LOCK_EX)
                spent = self._spent(day)
                if spent + dollars > most:
                    message = f"{dollars} dollars more would pass signer_per_day = {most}: {spent} were signed on {day}"
                    raise Refusal(message, LATER)
                self._keep(day, spent + dollars)
        except OSError as error:
            message = f"what is spent cannot be kept in {self._path.name} ({type(error).__name__}); nothing is signed"
            raise Refusal(message, CONFIG) from None

    def _spent(self, day: str) -> Decimal:
        if not self._path.exists():
            return Decimal(0)
        try:
            kept = json.loads(self._path.read_bytes())
            noted, spent = str(kept["day"]), Decimal(kept["dollars"])
        except (ValueError, KeyError, TypeError, InvalidOperation):
            spent, noted = Decimal("NaN"), ""
        if not spent.is_finite() or spent < 0:
            message = f"{self._path.name} is damaged, and what was signed today is not known: look at it, delete it"
            raise Refusal(message, CONFIG)
        # A clock that was set back begins no new day.
        return spent if noted >= day else Decimal(0)

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


def today() -> str:
    """Return the day (UTC) by this machine's clock."""
    return time.strftime("%Y-%m-%d", time.gmtime())


class Vault:
    """Holds the key and answers requests; ``day`` tells the day, which no request does."""

    def __init__(self, day: Callable[[], str] = today) -> None:
        self._day = day
        self._setup: Setup | None = None
        self._account: LocalAccount | None = None

    def answer(self, line: str) -> str:
        """Return the answer to one line. Whatever goes wrong, its message never holds what a library said."""
        try:
            asked = json.loads(line)
            told: Mapping[str, Any] = {"ok": self._answer(asked if isinstance(asked, dict) else {})}
        except Refusal as refusal:
            told = {"error": str(refusal), "kind": refusal.kind}
        except ImportError:
            told = {"error": NO_CLIENT, "kind": CONFIG}
        except Exception as error:  # noqa: BLE001 - messages of libraries may quote the key
            told = {"error": f"the signer failed ({type(error).__name__}); nothing was signed", "kind": REFUSED}
        return json.dumps(told)

    def _answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        match asked.get("do"):
            case "open":
                return self._open(Setup.of(asked))
            case "login":
                return self._login(_whole(asked, "timestamp"))
            case "order":
                return self._order(asked)
        message = "the signer does not do that"
        raise Refusal(message)

    def _open(self, setup: Setup) -> Mapping[str, Any]:
        from eth_account import Account  # noqa: PLC0415 - absent where the extra is not installed
        from polymarket._internal.environment import PRODUCTION_CONFIG  # noqa: PLC0415 - the same
        from polymarket._internal.wallet import try_classify_wallet_type  # noqa: PLC0415 - the same

        if self._setup is not None:
            message = "the signer is open already"
            raise Refusal(message)
        account = Account.from_key(read_key(setup.key_file))
        found = try_classify_wallet_type(
            signer=account.address, wallet=setup.wallet, config=PRODUCTION_CONFIG.wallet_derivation
        )
        if found is not None and found != WALLETS[setup.wallet_type]:
            right = next(name for name, title in WALLETS.items() if title == found)
            message = f"the wallet of this key is of the type {right}: set wallet_type in [venues.polymarket.settings]"
            raise Refusal(message, UNAUTHORIZED)
        self._setup, self._account = setup, account
        return {"address": account.address, "is_derived": found is not None}

    def _login(self, timestamp: int) -> Mapping[str, Any]:
        from polymarket._internal.l1_auth import sign_api_key_auth  # noqa: PLC0415 - as above

        _, account = self._opened()
        signed = sign_api_key_auth(account, chain_id=CHAIN, timestamp=timestamp)
        return {"address": signed.address, "nonce": signed.nonce, "signature": signed.signature}

    def _order(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        setup, account = self._opened()
        order = unsigned(asked, setup, account.address)
        dollars = Decimal(order.maker_amount if order.side == "BUY" else 0) / _MILLION
        if dollars > setup.per_order:
            message = f"an order of {dollars} dollars passes signer_per_order = {setup.per_order}"
            raise Refusal(message)
        if asked.get("look") is True:
            return shown(order, "")
        if dollars:
            # Its own clock: whoever could tell it the day could begin the day's budget anew.
            Spending(setup.spending).spend(dollars, most=setup.per_day, day=self._day())
        return signed(order, account)

    def _opened(self) -> "tuple[Setup, LocalAccount]":
        if self._setup is None or self._account is None:
            message = "the signer is not open"
            raise Refusal(message)
        return self._setup, self._account


def read_key(path: Path) -> str:
    """Return the key in a file that nobody but its owner can read; raises Refusal."""
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            text = file.read(_MOST_BYTES).decode(errors="replace").strip()
    except OSError as error:
        message = f"key_file {path} cannot be read: {error.strerror}"
        raise Refusal(message, UNAUTHORIZED) from None
    if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077:
        message = f"key_file {path} can be read by others than its owner: chmod 600 {path}"
        raise Refusal(message, UNAUTHORIZED)
    if not _KEY.fullmatch(text):
        message = f"key_file {path} does not hold a private key, 0x and 64 hexadecimal digits"
        raise Refusal(message, UNAUTHORIZED)
    return text


def unsigned(asked: Mapping[str, Any], setup: Setup, address: str) -> Any:  # noqa: ANN401 - of the client
    """Return the client's order from a request; raises Refusal for fields that are not what they should be.

    The contract and the version that it is signed for follow from the token and ``neg_risk``.
    """
    from eth_utils.address import to_checksum_address  # noqa: PLC0415 - as above
    from polymarket._internal.actions.orders.context import resolve_order_exchange_address  # noqa: PLC0415 - as above
    from polymarket._internal.actions.orders.orders import create_unsigned_order  # noqa: PLC0415 - as above
    from polymarket._internal.actions.orders.types import OrderDraft  # noqa: PLC0415 - as above
    from polymarket._internal.environment import PRODUCTION_CONFIG  # noqa: PLC0415 - as above

    token, side, kind = str(asked.get("token")), asked.get("side"), asked.get("type")
    neg_risk, salt = asked.get("neg_risk"), _whole(asked, "salt")
    right = token.isascii() and token.isdecimal() and int(token) < 2**256 and salt < 2**_SALT_BITS
    if not right or side not in {"BUY", "SELL"} or kind not in _TYPES or not isinstance(neg_risk, bool):
        message = "the order is not whole: token, side, type, neg_risk or salt"
        raise Refusal(message)
    gives, takes = _whole(asked, "maker_amount"), _whole(asked, "taker_amount")
    if not gives or not takes:
        message = "an order gives and takes more than nothing"
        raise Refusal(message)
    wallet: Any = to_checksum_address(setup.wallet)
    owner: Any = address
    asset: Any = token
    wallet_type: Any = WALLETS[setup.wallet_type]
    draft = OrderDraft(
        chain_id=CHAIN,
        exchange_address=resolve_order_exchange_address(PRODUCTION_CONFIG, asset_id=token, neg_risk=neg_risk),
        expiration=_whole(asked, "expiration"),
        funder_address=wallet,
        offered_amount=gives,
        order_type=kind,
        side=side,
        signer=owner,
        requested_amount=takes,
        asset_id=asset,
    )
    order = create_unsigned_order(draft, wallet=wallet, wallet_type=wallet_type)
    # The client's own salt and time are chance and its clock; the caller's make the same request the same order.
    return replace(order, salt=salt, timestamp=_whole(asked, "timestamp_ms"))


def signed(order: Any, account: "LocalAccount") -> Mapping[str, Any]:  # noqa: ANN401 - of the client
    """Return the order as it is posted, and its hash, under which the venue knows it."""
    from polymarket._internal.actions.orders.typed_data import (  # noqa: PLC0415 - as above
        build_order_signature,
        build_order_typed_data,
    )

    made = account.sign_typed_data(full_message=build_order_typed_data(order)).signature.hex().removeprefix("0x")
    plain: Any = f"0x{made}"
    return shown(order, build_order_signature(order, plain))


def shown(order: Any, signature: str) -> Mapping[str, Any]:  # noqa: ANN401 - of the client
    """Return an order with that signature in the form of a post, and its hash."""
    from polymarket._internal.actions.orders.orders import create_signed_order  # noqa: PLC0415 - as above
    from polymarket._internal.actions.orders.typed_data import build_order_typed_data  # noqa: PLC0415 - as above

    text: Any = signature
    whole = create_signed_order(order, text)
    return {
        "hash": digest(build_order_typed_data(order)),
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


def digest(typed: Mapping[str, Any]) -> str:
    """Return the EIP-712 digest of the order in typed data, also of one that is wrapped for a deposit wallet."""
    from eth_account.messages import encode_typed_data  # noqa: PLC0415 - as above
    from eth_utils.crypto import keccak  # noqa: PLC0415 - as above

    plain = typed
    if typed["primaryType"] != "Order":
        types = {name: typed["types"][name] for name in ("EIP712Domain", "Order")}
        plain = {**typed, "types": types, "primaryType": "Order", "message": typed["message"]["contents"]}
    signable = encode_typed_data(full_message=dict(plain))
    return "0x" + keccak(b"\x19\x01" + signable.header + signable.body).hex()


def _whole(asked: Mapping[str, Any], name: str) -> int:
    value = asked.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**255:
        message = f"{name} is no whole number"
        raise Refusal(message)
    return value


def main() -> None:
    """Answer until the input ends."""
    import resource  # noqa: PLC0415 - only where this is the program

    # What it holds in memory is left on no disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    vault = Vault()
    for line in sys.stdin:
        sys.stdout.write(vault.answer(line) + "\n")
        sys.stdout.flush()
