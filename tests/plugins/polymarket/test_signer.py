"""The signer: what it signs, what it refuses, and that nothing but it holds the key."""

import io
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from polymarket._internal.actions.orders.post import build_post_order_request
from polymarket._internal.actions.orders.typed_data import build_order_typed_data
from polymarket.models.clob.orders import SignedOrder

from plugins.polymarket import signer
from plugins.polymarket.signer import KeyVault, SignerSetup, SigningRefusedError, SpendingRecord
from tests.plugins.polymarket.writer_fixture import KEY, key_file

DEAD = "0x000000000000000000000000000000000000dEaD"
# docs/facts/polymarket.md#order-digests.
T1 = "71321045679252212594626385532706912750332728571942532289631379312455583992563"
T2 = "755628523515574437047200361729489104557184628977942975970487228992894009601"
BUY: dict[str, Any] = {
    "do": "order",
    "token": T1,
    "side": "BUY",
    "type": "GTD",
    "neg_risk": False,
    "maker_amount": 7_033_800,
    "taker_amount": 12_340_000,
    "timestamp_ms": 1_763_700_000_000,
    "expiration": 0,
    "salt": 12_345,
}
SELL = {**BUY, "side": "SELL", "maker_amount": 12_340_000, "taker_amount": 7_033_800}
DIGESTS = [
    (BUY, "eea70781c56971073ab9a26f23960eba31a2c50ae54c2883c5db7b0621df7fcb"),
    (SELL, "d7d3c98e42eff39ec2241ac2d40f606fde7a7666d0578ce05b737df9aa9e82ed"),
    ({**BUY, "neg_risk": True}, "d6852d7371ea2949ca62923d22ad8ad6ffd02d751c4b92f8110bce6ac14173d6"),
    ({**BUY, "token": T2}, "4a18d103b5407771f5d7ae8e2175cb4c17577ff449e9a2da3d69166a4ac71350"),
    ({**BUY, "expiration": 1_763_800_000}, "eea70781c56971073ab9a26f23960eba31a2c50ae54c2883c5db7b0621df7fcb"),
]
OWNER = Account.from_key(KEY).address
WALLET = "0x" + "d0" * 20


def opening(folder: Path, **changes: Any) -> dict[str, Any]:
    given = {
        "do": "open",
        "key_file": str(key_file(folder)),
        "wallet": WALLET,
        "wallet_type": "deposit",
        "spending": str(folder / "signer.json"),
        "per_order": "10",
        "per_day": "20",
    }
    return {**given, **changes}


def asked(vault: KeyVault, request: object) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(vault.answer_request(json.dumps(request)))
    return answer


def opened(folder: Path, **changes: Any) -> KeyVault:
    vault = KeyVault()
    assert "ok" in asked(vault, opening(folder, **changes))
    return vault


@pytest.mark.parametrize(("order", "digest"), DIGESTS)
def test_golden_vectors_of_the_order_digest(order: dict[str, Any], digest: str, tmp_path: Path) -> None:
    setup = SignerSetup.from_request(opening(tmp_path, wallet=DEAD, wallet_type="eoa"))
    typed = build_order_typed_data(signer.build_unsigned_order(order, setup, DEAD))
    assert signer.order_hash(typed) == f"0x{digest}"


def test_the_hash_of_a_deposit_wallets_order_is_that_of_the_order_inside(tmp_path: Path) -> None:
    setup = SignerSetup.from_request(opening(tmp_path, wallet=DEAD, wallet_type="deposit"))
    typed = build_order_typed_data(signer.build_unsigned_order(BUY, setup, OWNER))
    assert typed["primaryType"] == "TypedDataSign"
    inner = {**typed, "primaryType": "Order", "message": typed["message"]["contents"]}
    inner["types"] = {name: typed["types"][name] for name in ("EIP712Domain", "Order")}
    body = encode_typed_data(full_message=inner)
    again = build_order_typed_data(
        signer.build_unsigned_order(BUY, SignerSetup.from_request(opening(tmp_path, wallet_type="eoa")), OWNER)
    )
    assert body.header == encode_typed_data(full_message=again).header
    assert signer.order_hash(typed) != signer.order_hash(again)


@pytest.mark.parametrize(("kind", "number", "length"), [("eoa", 0, 65), ("deposit", 3, 317)])
def test_what_is_signed_is_the_clients_payload_and_recovers_the_key(
    kind: str, number: int, length: int, tmp_path: Path
) -> None:
    wallet = OWNER if kind == "eoa" else WALLET
    result = asked(opened(tmp_path, wallet=wallet, wallet_type=kind), BUY)["ok"]["order"]
    assert (result["signatureType"], (len(result["signature"]) - 2) // 2) == (number, length)
    assert (result["maker"].lower(), result["signer"].lower()) == (wallet.lower(), wallet.lower())
    setup = SignerSetup.from_request(opening(tmp_path, wallet=wallet, wallet_type=kind))
    typed = build_order_typed_data(signer.build_unsigned_order(BUY, setup, OWNER))
    plain = encode_typed_data(full_message=typed)
    assert Account.recover_message(plain, signature=bytes.fromhex(result["signature"][2:132])) == OWNER
    for name, other in (("makerAmount", 1), ("timestamp", 1), ("builder", "0x" + "01" * 32)):
        message = {**typed["message"], name: other}
        if kind == "deposit":
            message = {**typed["message"], "contents": {**typed["message"]["contents"], name: other}}
        altered = encode_typed_data(full_message={**typed, "message": message})
        assert Account.recover_message(altered, signature=bytes.fromhex(result["signature"][2:132])) != OWNER
    assert result == _payload_of_the_client(result)


def _payload_of_the_client(result: dict[str, Any]) -> object:
    whole = SignedOrder(
        builder=result["builder"],
        expiration=int(result["expiration"]),
        maker=result["maker"],
        maker_amount=int(result["makerAmount"]),
        metadata=result["metadata"],
        order_type="GTD",
        salt=result["salt"],
        side=result["side"],
        signature=result["signature"],
        signature_type=result["signatureType"],
        signer=result["signer"],
        taker_amount=int(result["takerAmount"]),
        timestamp=int(result["timestamp"]),
        token_id=result["tokenId"],
        post_only=False,
    )
    _, body = build_post_order_request(whole, owner_api_key="owner")
    return body["order"]


@pytest.mark.parametrize(
    "change",
    [
        {"token": "12a"},
        {"token": str(2**256)},
        {"side": "HOLD"},
        {"type": "EVER"},
        {"neg_risk": None},
        {"salt": 2**53},
        {"salt": True},
        {"maker_amount": 0},
        {"maker_amount": -1},
        {"taker_amount": 1.5},
        {"timestamp_ms": None},
        {"expiration": "soon"},
    ],
)
def test_an_order_that_is_not_whole_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    vault = opened(tmp_path)
    assert asked(vault, {**BUY, **change})["kind"] == "refused"
    assert not (tmp_path / "signer.json").exists()


@pytest.mark.parametrize("request_", ["no json", "[1]", '"open"', '{"do": "approve"}', '{"do": "deploy"}', "{}"])
def test_it_does_nothing_else(request_: str, tmp_path: Path) -> None:
    answer = json.loads(opened(tmp_path).answer_request(request_))
    assert answer.keys() == {"error", "kind"}


def test_nothing_is_signed_before_it_is_open_and_it_opens_once(tmp_path: Path) -> None:
    vault = KeyVault()
    assert asked(vault, BUY)["error"] == "the signer is not open"
    assert asked(vault, {"do": "login", "timestamp": 1})["error"] == "the signer is not open"
    assert "ok" in asked(vault, opening(tmp_path))
    assert "already" in asked(vault, opening(tmp_path))["error"]


def test_a_purchase_beyond_the_cap_of_an_order_is_not_signed(tmp_path: Path) -> None:
    vault = opened(tmp_path)
    answer = asked(vault, {**BUY, "maker_amount": 10_000_001})
    assert answer["kind"] == "refused"
    assert "signer_per_order = 10" in answer["error"]
    assert "ok" in asked(vault, {**BUY, "maker_amount": 10_000_000})


def test_a_new_day_is_one_of_its_own_clock_and_none_of_a_request(tmp_path: Path) -> None:
    days = ["2026-03-01", "2026-03-01", "2026-03-02", "2026-03-01"]
    vault = KeyVault(lambda: days.pop(0))
    asked(vault, opening(tmp_path, per_order="20"))
    whole = {**BUY, "maker_amount": 15_000_000}
    answers = [asked(vault, {**whole, "timestamp_ms": stamp_ms}) for stamp_ms in (1, 1_900_000_000_000)]
    assert [answer.get("kind", "signed") for answer in answers] == ["signed", "later"]
    assert "ok" in asked(vault, whole)
    # A clock that was set back begins no day anew.
    assert asked(vault, whole)["kind"] == "later"


def test_the_cap_of_a_day_holds_over_restarts_and_for_what_was_never_sent(tmp_path: Path) -> None:
    for _ in range(2):
        assert "ok" in asked(opened(tmp_path), {**BUY, "maker_amount": 9_000_000})
    answer = asked(opened(tmp_path), {**BUY, "maker_amount": 2_000_001})
    # The order itself may be signed on another day.
    assert answer["kind"] == "later"
    assert "signer_per_day = 20" in answer["error"]
    assert "ok" in asked(opened(tmp_path), {**BUY, "maker_amount": 2_000_000})
    # A sale brings money in.
    assert "ok" in asked(opened(tmp_path), SELL)


def test_a_look_has_the_hash_and_no_signature_and_counts_for_nothing(tmp_path: Path) -> None:
    vault = opened(tmp_path)
    for _ in range(5):
        look = asked(vault, {**BUY, "look": True})["ok"]
    assert not (tmp_path / "signer.json").exists()
    whole = asked(vault, BUY)["ok"]
    assert look == {"hash": whole["hash"], "order": {**whole["order"], "signature": ""}}
    assert "exceeds signer_per_order" in asked(vault, {**BUY, "look": True, "maker_amount": 10_000_001})["error"]


def test_the_program_answers_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps(request) for request in (BUY, opening(tmp_path), BUY)]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    signer.main()
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [next(iter(answer)) for answer in answers] == ["error", "ok", "ok"]


def test_the_next_day_begins_anew_and_a_clock_set_back_does_not(tmp_path: Path) -> None:
    spending = SpendingRecord(tmp_path / "signer.json")
    spending.spend(Decimal(9), limit=Decimal(10), day="2026-11-22")
    with pytest.raises(SigningRefusedError, match="2 more dollars would exceed signer_per_day = 10"):
        spending.spend(Decimal(2), limit=Decimal(10), day="2026-11-22")
    with pytest.raises(SigningRefusedError):
        spending.spend(Decimal(2), limit=Decimal(10), day="2026-11-21")
    # What is signed meanwhile counts on the day that had begun, so that it still counts once the clock is right again.
    spending.spend(Decimal(1), limit=Decimal(10), day="2026-11-21")
    with pytest.raises(SigningRefusedError, match=r"10 were signed on 2026-11-22"):
        spending.spend(Decimal(1), limit=Decimal(10), day="2026-11-22")
    # A clock that was ahead: the file has to go, unless that day comes soon.
    with pytest.raises(SigningRefusedError, match=r"if that day is not yet, the clock was wrong: delete signer.json"):
        spending.spend(Decimal(1), limit=Decimal(10), day="2026-11-21")
    spending.spend(Decimal(2), limit=Decimal(10), day="2026-11-23")


@pytest.mark.parametrize(
    "text", ["", "{", "{}", '{"day": "2026-11-22", "dollars": "NaN"}', '{"day": 1, "dollars": "x"}']
)
def test_where_spending_is_not_known_nothing_is_signed(text: str, tmp_path: Path) -> None:
    (tmp_path / "signer.json").write_text(text)
    answer = asked(opened(tmp_path), BUY)
    assert answer["kind"] == "config"
    assert "signer.json is damaged" in answer["error"]


def test_where_spending_cannot_be_kept_nothing_is_signed(tmp_path: Path) -> None:
    answer = asked(opened(tmp_path, spending=str(tmp_path / "key" / "signer.json")), BUY)
    assert answer["kind"] == "config"
    assert "nothing is signed" in answer["error"]
    assert "ok" in asked(opened(tmp_path, spending=str(tmp_path / "made" / "here" / "signer.json")), BUY)


@pytest.mark.parametrize(
    ("text", "mode", "word"),
    [(KEY, 0o640, "chmod 600"), (KEY, 0o604, "chmod 600"), ("hello", 0o600, "private key"), (KEY[:-1], 0o600, "key")],
)
def test_a_key_that_others_can_read_or_that_is_none_opens_nothing(
    text: str, mode: int, word: str, tmp_path: Path
) -> None:
    request = opening(tmp_path)
    key_file(tmp_path, text, mode)
    answer = asked(KeyVault(), request)
    assert answer["kind"] == "unauthorized"
    assert word in answer["error"]
    assert text not in answer["error"].replace(str(tmp_path), "")


def test_a_key_file_that_is_missing_or_a_folder_opens_nothing(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        answer = asked(KeyVault(), opening(tmp_path, key_file=str(path)))
        assert answer["kind"] == "unauthorized"
        assert "cannot be read" in answer["error"]


@pytest.mark.parametrize(
    "change",
    [
        {"wallet": "0x12"},
        {"wallet_type": "bank"},
        {"per_order": "-1"},
        {"per_day": "NaN"},
        {"per_day": None},
        {"spending": 1},
    ],
)
def test_it_opens_with_whole_settings_only(change: dict[str, Any], tmp_path: Path) -> None:
    assert asked(KeyVault(), opening(tmp_path, **change))["kind"] == "config"


def test_a_wallet_of_another_type_than_was_said_is_named(tmp_path: Path) -> None:
    answer = asked(KeyVault(), opening(tmp_path, wallet=OWNER, wallet_type="deposit"))
    assert answer["kind"] == "unauthorized"
    assert "of the type eoa: set wallet_type" in answer["error"]


def test_whether_the_wallet_is_that_of_the_key_is_told(tmp_path: Path) -> None:
    assert asked(KeyVault(), opening(tmp_path, wallet=OWNER, wallet_type="eoa"))["ok"]["is_derived"] is True
    assert asked(KeyVault(), opening(tmp_path))["ok"] == {"address": OWNER, "is_derived": False}
