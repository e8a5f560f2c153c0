import hashlib

from hypothesis import given
from hypothesis import strategies as st

from bot.core.ids import derive_id, sha256_hex

words = st.text(st.characters(codec="utf-8", exclude_characters="\x1f"), max_size=5)
parts = st.lists(words, min_size=1, max_size=4)


def test_a_digest_is_the_published_sha_256() -> None:
    # FIPS 180-2, appendix B.1.
    assert sha256_hex(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_an_id_is_the_beginning_of_the_digest_of_its_parts() -> None:
    assert derive_id("intent", "a", "b") == hashlib.sha256(b"intent\x1fa\x1fb").hexdigest()[:24]


@given(first=parts, second=parts)
def test_ids_are_equal_exactly_where_their_parts_are(first: list[str], second: list[str]) -> None:
    assert (derive_id(*first) == derive_id(*second)) == (first == second)
