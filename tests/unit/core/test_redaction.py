"""Secrets are found in whatever form somebody repeats them, and nothing else is lost."""

import base64
import hashlib
import html
import itertools
import json
import logging
import urllib.parse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.cli.command_setup import RedactedLogRecord
from bot.core import redaction
from bot.core.redaction import (
    REDACTION_MARK,
    SecretRedactor,
    redact_foreign_message,
    redact_known_secret_bytes,
    redact_known_secrets,
    redact_message,
    register_secrets,
    register_url_passwords,
)
from tests.issued_secrets import ESCAPED_FORMS, ISSUED_SECRETS, PACKED_FORMS

ROOT = Path(__file__).resolve().parents[3]

KEY = "Zq7-canary/+key=42&sp\"ace'<x>\\end"
NUMBER = "0x" + hashlib.sha256(b"canary").hexdigest()
PROSE = "The lamp was lit on 2026-01-02, as https://almanac.example/rain?page=2 says; 0.4231 of 12345678 agree."

ENCODINGS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "in a URL": urllib.parse.quote,
    "in a query": lambda key: urllib.parse.urlencode({"apiKey": key}),
    "in a URL, all": lambda key: urllib.parse.quote(key, safe=""),
    "JSON": json.dumps,
    "JSON in JSON": lambda key: json.dumps(json.dumps({"key": key})),
    "repr": repr,
    "of bytes": lambda key: repr(key.encode()),
    "HTML": html.escape,
    "hex": lambda key: key.encode().hex(),
    "HEX": lambda key: key.encode().hex().upper(),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "basic auth": lambda key: base64.b64encode(f"me:{key}".encode()).decode(),
    "base64 in more": lambda key: base64.b64encode(f"user {key} and more".encode()).decode(),
    "base64 for URLs": lambda key: base64.urlsafe_b64encode(f"u:{key}".encode()).decode(),
}


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("key", [KEY, NUMBER, "correct horse battery", "ключ-канарейки-1", "short-k1"])
def test_a_secret_is_hidden_in_every_encoding(name: str, key: str) -> None:
    register_secrets(key)
    encoded = ENCODINGS[name](key)
    hidden = redact_known_secrets(f"before {encoded} after")
    assert REDACTION_MARK in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")
    assert key not in urllib.parse.unquote(hidden)
    # Nothing from the middle of the secret is left, in whatever form.
    middle = len(encoded) // 2
    assert encoded[middle - 3 : middle + 3] not in hidden


@pytest.mark.parametrize("issuer", ISSUED_SECRETS)
@settings(max_examples=5)
@given(st.data())
def test_a_secret_of_every_issuer_is_hidden_in_every_form(issuer: str, data: st.DataObject) -> None:
    secret = data.draw(ISSUED_SECRETS[issuer])
    redactor = SecretRedactor().with_secrets([secret])
    for form, make in {**ESCAPED_FORMS, **PACKED_FORMS}.items():
        hidden = redactor.redact(f"before «{make(secret)}» after")
        assert hidden.startswith("before «"), form
        assert hidden.endswith("» after"), form
        left = hidden.removeprefix("before «").removesuffix("» after").replace(REDACTION_MARK, "")
        # Digits that encode a neighbour as well, and padding.
        assert len(left) <= (0 if form in ESCAPED_FORMS else 16), (form, left)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_secret_under_layers_of_escapes_of_different_kinds_is_hidden(layers: int) -> None:
    register_secrets(KEY)
    wraps: tuple[Callable[[str], str], ...] = (
        lambda text: json.dumps(text)[1:-1],
        lambda text: urllib.parse.quote(text, safe=""),
        html.escape,
    )
    for order in itertools.product(wraps, repeat=layers):
        text = KEY
        for wrap in order:
            text = wrap(text)
        assert redact_known_secrets(f"before {text} after") == f"before {REDACTION_MARK} after"


@pytest.mark.parametrize(("start", "end"), [(0, 15), (4, 19), (25, 40)])
def test_fifteen_characters_of_a_secret_are_hidden_and_fewer_in_a_sentence_stay(start: int, end: int) -> None:
    token = hashlib.sha256(b"token").hexdigest()[:40]
    register_secrets(token)
    assert redact_known_secrets(f"401 for {token[start:end]}, bye") == f"401 for {REDACTION_MARK}, bye"
    shorter = f"401 for {token[start : end - 1]}, bye"
    assert redact_known_secrets(shorter) == shorter


def test_a_piece_at_the_end_of_a_text_is_hidden_from_eight_characters_on_unless_it_is_words() -> None:
    register_secrets("q8Zt3Lm0xW5vBn7Rk2Js", "lanterns are lit in the harbour")
    assert redact_known_secrets("the first half is q8Zt3Lm0") == f"the first half is {REDACTION_MARK}"
    assert redact_known_secrets("Bn7Rk2Js is the other") == f"{REDACTION_MARK} is the other"
    assert redact_known_secrets("t3Lm0xW5vB") == REDACTION_MARK
    register_secrets("cf87ac02d82c6a299b09c1aefd94b6a333469508")
    assert redact_known_secrets("33469508 was the end") == f"{REDACTION_MARK} was the end"
    assert redact_known_secrets("3346 950 was the end") == "3346 950 was the end"
    for text in ("the first half is q8Zt3Lm", "Rk2Js is the other", "Of all lanterns are", "in the harbour"):
        assert redact_known_secrets(text) == text


def test_slashes_that_only_the_encoded_secret_has_may_be_escaped() -> None:
    # Found by the property test of errors: in base64 it is fkY/UHdDUl1ddT4/dUBoej4lNzk=.
    secret = "~F?PwCR]]u>?u@hz>%79"  # noqa: S105 - of a property test
    redactor = SecretRedactor().with_secrets([secret])
    for form, make in {**ESCAPED_FORMS, **PACKED_FORMS}.items():
        assert REDACTION_MARK in redactor.redact(f"before «{make(secret)}» after"), form


@settings(max_examples=1)
@given(st.fixed_dictionaries(dict(ISSUED_SECRETS)), st.integers(0, 22))
def test_the_long_words_of_a_text_hide_the_same_as_all_of_it(secrets: dict[str, str], which: int) -> None:
    del secrets["passphrase of words"]
    redactor = SecretRedactor().with_secrets([*secrets.values(), "short-k1", "ключ-канарейки-1"])
    thorough = replace(redactor, word_table=b"")
    assert redactor.word_table
    few, many = "The lamp was lit. " * 240, "deadbeef-deadbeef " * 240
    for form in (*(form for form, _ in redactor.forms[which::23]), "ключ-канарейки-1".encode()):
        cuts = (slice(8), slice(-8, None), slice(1, 15), slice(1, 16), slice(-15, None), slice(None))
        for piece in (form[cut].decode(errors="replace") for cut in cuts):
            for text in (f"{few} {piece} end", f"{few} {piece}", f"{piece} {few}", f"{many}{piece} end"):
                assert redactor.redact(text) == thorough.redact(text)


def test_a_part_of_a_secret_with_blanks_is_hidden_in_a_long_text() -> None:
    register_secrets(hashlib.sha256(b"token").hexdigest(), "correct horse battery staple")
    assert redact_known_secrets(f"{50 * PROSE}correct horse b{PROSE}") == f"{50 * PROSE}{REDACTION_MARK}{PROSE}"


@settings(max_examples=1)
@given(st.fixed_dictionaries(dict(ISSUED_SECRETS)))
def test_no_ordinary_text_is_hidden(secrets: dict[str, str]) -> None:
    """All documents and sources of this project, and each line of them, with a secret of every issuer."""
    redactor = SecretRedactor().with_secrets(secrets.values())
    files = [path for folder in ("docs", "bot", "plugins") for path in (ROOT / folder).rglob("*.*")]
    texts = [path.read_text() for path in files if path.suffix in {".md", ".py", ".txt"}]
    assert len(texts) > 500
    assert [text for text in texts if redactor.redact(text) is not text] == []
    assert [line for text in texts for line in text.splitlines() if redactor.redact(line) is not line] == []


@pytest.mark.parametrize("form", [NUMBER[2:], NUMBER.upper().replace("0X", "0x"), NUMBER[2:].upper()])
def test_a_number_is_hidden_with_and_without_its_prefix_in_either_case(form: str) -> None:
    register_secrets(NUMBER)
    assert form not in redact_known_secrets(f"key={form};")
    assert redact_known_secrets(f"key={form};").startswith("key=")


def test_the_bytes_of_a_number_are_hidden_in_base64() -> None:
    register_secrets(NUMBER)
    assert REDACTION_MARK in redact_known_secrets(base64.b64encode(bytes.fromhex(NUMBER[2:])).decode())


@pytest.mark.parametrize("cut", [slice(20), slice(-20, None), slice(10, None), slice(40)])
def test_what_is_left_of_a_secret_in_a_message_that_was_cut_is_hidden(cut: slice) -> None:
    register_secrets(NUMBER[2:])
    assert redact_known_secrets(f"401 for {NUMBER[2:][cut]}") == f"401 for {REDACTION_MARK}"


def test_the_password_in_an_address_is_secret_and_the_address_is_not() -> None:
    register_url_passwords("https://me:open-sesame-1@venue.example/api")
    assert (
        redact_known_secrets("no route to venue.example for open-sesame-1")
        == f"no route to venue.example for {REDACTION_MARK}"
    )


def test_of_a_secret_address_the_parts_that_tell_are_secret_and_other_addresses_stay() -> None:
    register_secrets("https://hooks.example.org/services/T00000000/XXXXXXXXXXXXXXXXXXXXXXXX")
    assert "XXXXXXXX" not in redact_known_secrets("POST /services/T00000000/XXXXXXXXXXXXXXXXXXXXXXXX failed")
    assert redact_known_secrets("https://hooks.example.com/services") == "https://hooks.example.com/services"


def test_what_is_too_short_to_be_told_from_words_and_numbers_is_not_hidden() -> None:
    register_secrets("", "lamp", "12345678")
    assert redact_known_secrets(PROSE) == PROSE


def test_text_without_a_secret_is_the_very_same_object() -> None:
    register_secrets(KEY, NUMBER)
    assert redact_known_secrets(PROSE) is PROSE
    content = PROSE.encode() + b"\xff\x00"
    assert redact_known_secret_bytes(content) is content


def test_bytes_that_are_no_text_keep_what_is_around_a_secret() -> None:
    register_secrets(NUMBER)
    assert (
        redact_known_secret_bytes(b"\xff\x00 " + NUMBER.encode() + b" \xfe")
        == b"\xff\x00 " + REDACTION_MARK.encode() + b" \xfe"
    )


def test_a_text_that_was_clean_is_searched_for_a_secret_that_is_learnt_later() -> None:
    text = "The word is hunter2-and-more."
    with redaction.temporary_secrets():
        register_secrets("another-secret-7f31")
        assert redact_known_secrets(text) is text
        same = " ".join(text.split())
        assert redact_known_secrets(same) is same
        register_secrets("hunter2-and-more")
        assert "hunter2" not in redact_known_secrets(text)
    assert redact_known_secrets(text) is text


def test_what_was_learnt_in_a_block_is_forgotten_at_its_end() -> None:
    with redaction.temporary_secrets():
        register_secrets(KEY)
        assert redact_known_secrets(KEY) == REDACTION_MARK
    assert redact_known_secrets(KEY) == KEY


def test_the_representation_of_a_redactor_shows_nothing() -> None:
    assert KEY not in repr(SecretRedactor().with_secrets([KEY]))


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Key 0a1b2c3d-0a1b",
        "{'Authorization': 'Token 0123456789abcdef'}",
        'headers=[("authorization", "Bearer abcdefghijklmnop")]',
        "GET https://api.example/v1?apiKey=abcdefgh12&q=x",
        "wrong api_key='abcdefgh12'",
        "POLY_PASSPHRASE: abcdefgh12",
        "sk-proj-AbCdEfGhIjKlMnOpQrSt12345678",
        "sk-0123456789abcdef0123456789abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "fox_" + "a" * 43,
        "private key: 0x" + "ab" * 32,
        "https://me:password1@host.example/",
    ],
)
def test_what_looks_like_a_secret_is_left_out_of_messages(text: str) -> None:
    assert REDACTION_MARK in redact_message(text)
    assert not {"abcdefgh12", "0123456789abcdef", "abcdefghijklmnop", "password1"} & {
        *redact_message(text).replace("'", " ").split()
    }


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        "set FOXCAST_VENUES__LANTERN__SETTINGS__KEY, or key_file to a file that only you can read",
        "the token is unknown: it was mistyped or revoked; check FOXCAST_TOKEN or the token file",
        "https://news.example/sk-hynix-to-invest-20-trillion-won-in-2026-as-demand-for-memory-grows",
        "polymarket:0x" + "ab" * 32,
        "a secret must not be in this file",
        "basic income, bearer of news",
    ],
)
def test_what_does_not_look_like_a_secret_stays_in_messages(text: str) -> None:
    assert redact_message(text) == text


def test_what_somebody_elses_code_says_holds_no_number_as_long_as_a_private_key() -> None:
    assert redact_foreign_message(f"ValueError: {NUMBER} is no key") == f"ValueError: {REDACTION_MARK} is no key"


@given(st.text(min_size=16, max_size=80), st.text(max_size=60), st.text(max_size=60))
def test_any_secret_is_hidden_in_any_text_and_hiding_twice_changes_nothing(secret: str, left: str, right: str) -> None:
    secret = secret.encode("utf-8", "replace").decode()
    redactor = SecretRedactor().with_secrets([secret] if not secret.isdigit() else [f"k{secret}"])
    known = next(iter(redactor.secrets))
    hidden = redactor.redact(f"{left}{known}{right}")
    assert known not in hidden
    assert redactor.redact(hidden) == hidden


@given(st.text(max_size=200))
def test_text_that_shares_nothing_with_a_secret_stays(text: str) -> None:
    assert SecretRedactor().with_secrets(["\x01" * 20 + "\x02" * 20]).redact(text) == text


def test_what_a_library_logs_has_neither_the_secret_in_its_message_nor_in_its_traceback() -> None:
    register_secrets(KEY)
    with pytest.raises(ValueError, match="invalid literal") as caught:
        int(KEY)
    raised = (caught.type, caught.value, caught.tb)
    record = RedactedLogRecord("lib", logging.ERROR, __file__, 1, "sent %s", (KEY,), raised)
    text = logging.Formatter("%(message)s").format(record)
    assert text.startswith(f"sent {REDACTION_MARK}\nTraceback")
    assert "ValueError: invalid literal" in text
    assert KEY not in text
    assert repr(KEY) not in text
    assert record.exc_info is None
