import lzma
import random
import shutil
import subprocess
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.store.compression import FAST_LEVEL, THOROUGH_LEVEL, compress_bytes, decompress_bytes

SONG = b"rain rain rain rain rain rain rain rain, go away"
# Made by the command-line tool zstd 1.5.4: with its highest level, and with content that it could not compress.
SONG_BY_ZSTD = "28b52ffd0468a50000707261696e202c20676f20617761790100708a169dda2b70"
RAIN_BY_ZSTD = "28b52ffd00582100007261696e"


@pytest.mark.parametrize(("made", "content"), [(SONG_BY_ZSTD, SONG), (RAIN_BY_ZSTD, b"rain")])
def test_what_another_program_compressed_is_read(made: str, content: bytes) -> None:
    assert decompress_bytes(bytes.fromhex(made)) == content


@pytest.mark.skipif(shutil.which("zstd") is None, reason="the command-line tool zstd is not installed")
@pytest.mark.parametrize("level", [FAST_LEVEL, THOROUGH_LEVEL])
def test_another_program_reads_what_was_compressed(level: int) -> None:
    packed = compress_bytes(SONG * 1_000, level=level)
    assert len(packed) < len(SONG) * 2
    assert subprocess.run(["zstd", "-dc"], input=packed, capture_output=True, check=True).stdout == SONG * 1_000


@given(content=st.binary(max_size=5_000), level=st.sampled_from([FAST_LEVEL, THOROUGH_LEVEL]))
def test_any_content_comes_back(content: bytes, level: int) -> None:
    assert decompress_bytes(compress_bytes(content, level=level)) == content


def test_threads_may_compress_at_the_same_time() -> None:
    contents = [bytes([number]) * 3_000 + random.Random(number).randbytes(60_000) for number in range(64)]
    contents += [SONG * 50_000, SONG, b""]
    with ThreadPoolExecutor(4) as threads:
        packed = [*threads.map(lambda content: compress_bytes(content, level=FAST_LEVEL), 2 * contents)]
    assert [*map(decompress_bytes, packed)] == 2 * contents
    assert packed[: len(contents)] == packed[len(contents) :]


@given(content=st.binary(max_size=5_000))
def test_what_earlier_versions_compressed_is_read(content: bytes) -> None:
    for earlier in (zlib.compress(content, 1, 9), zlib.compress(content), lzma.compress(content), b"\0" + content):
        assert decompress_bytes(earlier) == content


@pytest.mark.parametrize(
    "packed", [bytes.fromhex(SONG_BY_ZSTD)[:-6], zlib.compress(SONG)[:-1], lzma.compress(SONG)[:-1], b"", b"rain"]
)
def test_damaged_bytes_are_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        decompress_bytes(packed)
