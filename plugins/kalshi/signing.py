"""Signs requests with the RSA key of the account; ``cryptography`` is only loaded where something is signed.

Source: docs/facts/kalshi.md#signing.
"""

import base64
import stat
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bot.api import AuthenticationError, Clock
from plugins.kalshi.settings import KalshiSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_TABLE = "[venues.kalshi.settings]"


class KalshiSigner:
    """Makes the headers of requests; nothing is read before the first one."""

    def __init__(self, settings: KalshiSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock

    def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the headers of a request, signed now; raises AuthenticationError if it cannot be signed."""
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - an extra, and only for live trading
        from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415 - an extra, and only for live trading

        key, key_id = self._key, self._settings.key_id
        if not key_id:
            message = f"no key_id: set it, with key_file, in {_TABLE}"
            raise AuthenticationError(message, sent=False)
        stamp = str(int(self._clock.now().timestamp() * 1000))
        # Without the query, and with the whole path.
        text = f"{stamp}{method}{urlsplit(url).path}"
        pss = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=32)
        return {
            "KALSHI-ACCESS-KEY": key_id,
            "KALSHI-ACCESS-TIMESTAMP": stamp,
            "KALSHI-ACCESS-SIGNATURE": base64.b64encode(key.sign(text.encode(), pss, hashes.SHA256())).decode(),
        }

    @cached_property
    def _key(self) -> "RSAPrivateKey":
        settings = self._settings
        if not settings.attested:
            message = f"set attested = true in {_TABLE} if the venue's terms let you trade; otherwise nothing is traded"
            raise AuthenticationError(message, sent=False)
        if settings.key_file is None:
            message = f"no key_file: set the file with the private key of the account in {_TABLE}"
            raise AuthenticationError(message, sent=False)
        return load_key(settings.key_file)


def load_key(path: Path) -> "RSAPrivateKey":
    """Read an RSA key in PEM of either form; raises AuthenticationError for anything else, never with its content."""
    try:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # noqa: PLC0415 - an extra, and only for live trading
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - an extra, and only for live trading
    except ImportError as error:
        message = "signing needs cryptography: pip install 'foxcast[kalshi]'"
        raise AuthenticationError(message, sent=False) from error
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            message = f"{path}: others can read the key; chmod 600 {path}"
            raise AuthenticationError(message, sent=False)
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        message = f"{path}: the key cannot be read: {error.strerror}"
        raise AuthenticationError(message, sent=False) from error
    except (ValueError, TypeError) as error:
        message = f"{path}: not a private key in PEM without a password"
        raise AuthenticationError(message, sent=False) from error
    if not isinstance(key, RSAPrivateKey):
        message = f"{path}: not an RSA key; create one of that kind at the venue"
        raise AuthenticationError(message, sent=False)
    return key
