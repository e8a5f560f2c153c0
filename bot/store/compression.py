"""Bytes compressed for the ledger and its evidence, with Zstandard (RFC 8878).

What earlier versions compressed with zlib and LZMA is read too: the first bytes tell. Measured on prompts and search
results of real length, 220 kB a forecast: level 6 takes 2.5 ms for 34.7 kB, LZMA's preset 2 took 15.1 ms for 33.7 kB;
12 kB alone take 0.10 ms at level 1 and 0.30 ms in zlib, for as many bytes.
"""

import sys
from collections import defaultdict
from functools import cache
from importlib import import_module
from typing import Any

# While a forecast runs, and once it has ended.
FAST_LEVEL, THOROUGH_LEVEL = 1, 6
# What is stored as it is. Nothing compressed begins with this byte.
PLAIN_MARK = b"\0"
_ZSTANDARD_MAGIC = b"\x28\xb5\x2f\xfd"
_XZ_MAGIC = b"\xfd7zXZ\x00"
# Compressors that no thread uses now, by their level: making one takes longer than compressing some kilobytes. One that
# had long content keeps much memory.
_IDLE_COMPRESSORS: defaultdict[int, list[Any]] = defaultdict(list)
_MAX_KEPT_BYTES = 1024 * 1024


def compress_bytes(content: bytes, *, level: int) -> bytes:
    """Compress content at one of the levels above."""
    idle = _IDLE_COMPRESSORS[level]
    try:
        compressor = idle.pop()
    except IndexError:
        compressor = _load_zstandard().ZstdCompressor(level)
    packed: bytes = compressor.compress(content, compressor.FLUSH_FRAME)
    if len(content) <= _MAX_KEPT_BYTES:
        idle.append(compressor)
    return packed


def decompress_bytes(packed: bytes) -> bytes:
    """Return the content, whatever compressed it; raises ValueError for damaged bytes."""
    if packed.startswith(PLAIN_MARK):
        return packed[len(PLAIN_MARK) :]
    if packed.startswith(_ZSTANDARD_MAGIC):
        return _decompress_zstandard(packed)
    return _decompress_earlier_form(packed)


def _decompress_zstandard(packed: bytes) -> bytes:
    zstd = _load_zstandard()
    try:
        content: bytes = zstd.decompress(packed)
    except zstd.ZstdError as error:
        raise ValueError(str(error)) from error
    return content


@cache
def _load_zstandard() -> Any:  # noqa: ANN401 - the module of the standard library, or the same for Python before 3.14
    # Commands that read no evidence need none.
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def _decompress_earlier_form(packed: bytes) -> bytes:
    import lzma  # noqa: PLC0415 - only old evidence needs them
    import zlib  # noqa: PLC0415 - as above

    try:
        return lzma.decompress(packed) if packed.startswith(_XZ_MAGIC) else zlib.decompress(packed)
    except (lzma.LZMAError, zlib.error) as error:
        raise ValueError(str(error)) from error
