"""Signatures as the fake Polymarket checks them: EIP-712 for orders and log-ins, HMAC for private requests."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

CHAIN = 137
STANDARD_CONTRACT = "0xE111180000d2663C0091e4f400237545B87B996B"
NEG_RISK_CONTRACT = "0xe2222d279d744050d28e00520010520000310F59"
THIRD_CONTRACT = "0xe3333700cA9d93003F00f0F71f8515005F6c00Aa"
CONTRACTS = (STANDARD_CONTRACT, NEG_RISK_CONTRACT, THIRD_CONTRACT)
DEPOSIT_WALLET = 3
LOGIN_TEXT = "This message attests that I control the given wallet"

_ORDER = (
    ("salt", "uint256"),
    ("maker", "address"),
    ("signer", "address"),
    ("tokenId", "uint256"),
    ("makerAmount", "uint256"),
    ("takerAmount", "uint256"),
    ("side", "uint8"),
    ("signatureType", "uint8"),
    ("timestamp", "uint256"),
    ("metadata", "bytes32"),
    ("builder", "bytes32"),
)
_ORDER_TEXT = f"Order({','.join(f'{kind} {name}' for name, kind in _ORDER)})"
_DOMAIN = (("name", "string"), ("version", "string"), ("chainId", "uint256"), ("verifyingContract", "address"))
_WRAPPER = (
    ("contents", "Order"),
    ("name", "string"),
    ("version", "string"),
    ("chainId", "uint256"),
    ("verifyingContract", "address"),
    ("salt", "bytes32"),
)
_LOGIN = (("address", "address"), ("timestamp", "string"), ("nonce", "uint256"), ("message", "string"))


def is_v2(token: str) -> bool:
    """Return whether a token id belongs to a market of the second protocol: its bits 40 to 103 are zero."""
    return (int(token) >> 40) & (2**64 - 1) == 0


def v2_token(condition: str, index: int) -> str:
    """Return the id of an outcome of a condition of 31 bytes."""
    return str(int(condition, 16) << 8 | index)


def exchange_domain(version: str, contract: str) -> dict[str, Any]:
    """Return the domain of an exchange."""
    return {"name": "Polymarket CTF Exchange", "version": version, "chainId": CHAIN, "verifyingContract": contract}


def token_domain(token: str, *, neg_risk: bool) -> dict[str, Any]:
    """Return the domain that orders of a token are signed in."""
    if is_v2(token):
        return exchange_domain("3", THIRD_CONTRACT)
    return exchange_domain("2", NEG_RISK_CONTRACT if neg_risk else STANDARD_CONTRACT)


class OrderDigest:
    """The parts of an EIP-712 digest of an order as it is posted; ``id`` is the order's id."""

    def __init__(self, order: Mapping[str, Any], domain: Mapping[str, Any]) -> None:
        message = {name: _typed_value(order[name], kind) for name, kind in _ORDER}
        message["side"] = {"BUY": 0, "SELL": 1}[order["side"]]
        self._message, self._domain, self._order = message, domain, order
        signable = _encode_typed_data({"Order": _ORDER}, "Order", domain, message)
        self.separator: bytes = signable.header
        self.contents: bytes = signable.body
        self.id = "0x" + _hash_keccak(b"\x19\x01" + signable.header + signable.body).hex()

    def signer(self) -> str:
        """Return the address that signed; for a deposit wallet, that of its owner. Raises ValueError."""
        signature = bytes.fromhex(self._order["signature"].removeprefix("0x"))
        if self._message["signatureType"] != DEPOSIT_WALLET:
            plain = _encode_typed_data({"Order": _ORDER}, "Order", self._domain, self._message)
            return _recover_address(plain, signature)
        text = _ORDER_TEXT.encode()
        trailer = self.separator + self.contents + text + len(text).to_bytes(2, "big")
        if signature[65:] != trailer:
            message = "the signature of a deposit wallet must be followed by what was signed"
            raise ValueError(message)
        wrapped = {
            "contents": self._message,
            "name": "DepositWallet",
            "version": "1",
            "chainId": CHAIN,
            "verifyingContract": self._order["signer"],
            "salt": bytes(32),
        }
        types = {"Order": _ORDER, "TypedDataSign": _WRAPPER}
        return _recover_address(_encode_typed_data(types, "TypedDataSign", self._domain, wrapped), signature[:65])


def login_signer(address: str, timestamp: str, nonce: int, signature: str) -> str:
    """Return the signer of a log-in; raises ValueError."""
    message = {"address": address, "timestamp": timestamp, "nonce": nonce, "message": LOGIN_TEXT}
    domain = {"name": "ClobAuthDomain", "version": "1", "chainId": CHAIN}
    signable = _encode_typed_data({"ClobAuth": _LOGIN}, "ClobAuth", domain, message)
    return _recover_address(signable, bytes.fromhex(signature.removeprefix("0x")))


def key_address(private_key: str) -> str:
    """Return the address of a key."""
    from eth_account import Account  # noqa: PLC0415 - only in the environment of tests

    return str(Account.from_key(private_key).address)


def request_hmac(secret: str, timestamp: str, method: str, path: str, body: str) -> str:
    """Return the signature of a private request; the path has no query."""
    key = base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
    digest = hmac.new(key, f"{timestamp}{method}{path}{body}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode()


def _typed_value(value: Any, kind: str) -> Any:  # noqa: ANN401 - fields of JSON
    if kind.startswith("uint") and value not in {"BUY", "SELL"}:
        return int(value)
    return bytes.fromhex(value.removeprefix("0x")) if kind == "bytes32" else value


def _encode_typed_data(
    types: Mapping[str, tuple[tuple[str, str], ...]],
    primary: str,
    domain: Mapping[str, Any],
    message: Any,  # noqa: ANN401 - JSON
) -> Any:  # noqa: ANN401 - a library that tests alone have
    from eth_account.messages import encode_typed_data  # noqa: PLC0415 - only in the environment of tests

    fields = [(name, kind) for name, kind in _DOMAIN if name in domain]
    listed = {"EIP712Domain": fields, **types}
    return encode_typed_data(
        full_message={
            "types": {title: [{"name": name, "type": kind} for name, kind in row] for title, row in listed.items()},
            "primaryType": primary,
            "domain": dict(domain),
            "message": message,
        }
    )


def _recover_address(signable: Any, signature: bytes) -> str:  # noqa: ANN401 - as _encoded returns it
    from eth_account import Account  # noqa: PLC0415 - only in the environment of tests

    try:
        return str(Account.recover_message(signable, signature=signature))
    except Exception as error:
        # The library raises several kinds of errors for an invalid signature.
        message = f"no signature: {error}"
        raise ValueError(message) from error


def _hash_keccak(value: bytes) -> bytes:
    from eth_utils.crypto import keccak  # noqa: PLC0415 - only in the environment of tests

    return bytes(keccak(value))
