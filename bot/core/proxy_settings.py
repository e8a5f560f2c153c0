"""The proxy of outgoing connections, as configured."""

from dataclasses import field
from urllib.parse import urlsplit

from bot.core.light_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """The proxy of all outgoing connections; by default there is none, and the environment is ignored.

    ``url`` is the address of an HTTP proxy and may have a user name and a password. With ``trust_env`` the environment
    names the proxies (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY) where ``url`` is None, and certificate authorities
    (SSL_CERT_FILE, SSL_CERT_DIR) in any case.
    """

    url: str | None = field(default=None, repr=False)
    trust_env: bool = False


# Connects directly, independent of the environment.
NO_PROXY = ProxySettings()


def check_proxy_url(text: str) -> str:
    """Return the address of a proxy; raises ValueError, which does not repeat it, for anything else."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and text.isascii()
    except ValueError:  # An open bracket, or a port that is not a number.
        usable = False
    if not usable or parts.path not in {"", "/"} or parts.query or parts.fragment or " " in text:
        message = "should be the address of an HTTP proxy, such as http://host:3128 or http://name:password@host:3128"
        raise ValueError(message)
    if (parts.username is None) != (parts.password is None):
        message = "should have both a user name and a password before the host, or neither"
        raise ValueError(message)
    return text
