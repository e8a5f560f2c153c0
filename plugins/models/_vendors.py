"""Where the vendors are, and how they want to be given a key: what litellm would look up for them, without litellm.

Names of vendors and of environment variables are those of litellm, so that what works with it works here.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bot.api import ConfigError
from plugins.models._profiles import ROUTER, WireFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorAddress:
    """The address of a vendor, and the variables in which another address and the key may stand.

    ``base`` is "" for a server of one's own; one without ``keys`` asks for none.
    """

    base: str = ""
    bases: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    header: str = "Authorization"
    headers: Mapping[str, str] = field(default_factory=dict)

    def address(self, configured: str | None, setting: str) -> str:
        """Return the base address; raises ConfigError where there is none."""
        found = configured or _first(self.bases) or self.base
        if not found:
            message = f"no address is known for this model: set {setting}"
            raise ConfigError(message)
        return found.rstrip("/")

    def key(self, configured: str | None) -> str | None:
        """Return the key, from config or from the environment."""
        return configured or _first(self.keys)

    def headers_with(self, key: str | None) -> dict[str, str]:
        """Return the headers of a request."""
        if key is None:
            return dict(self.headers)
        return {**self.headers, self.header: f"Bearer {key}" if self.header == "Authorization" else key}


def _own(name: str, base: str) -> VendorAddress:
    return VendorAddress(base=base, bases=(f"{name}_API_BASE",), keys=(f"{name}_API_KEY",))


VENDORS: Mapping[str, VendorAddress] = MappingProxyType(
    {
        "openai": VendorAddress(
            base="https://api.openai.com/v1",
            bases=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
            keys=("OPENAI_API_KEY",),
        ),
        "anthropic": VendorAddress(
            base="https://api.anthropic.com",
            bases=("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
            keys=("ANTHROPIC_API_KEY",),
            header="x-api-key",
            headers=MappingProxyType({"anthropic-version": "2023-06-01"}),
        ),
        "gemini": VendorAddress(
            base="https://generativelanguage.googleapis.com/v1beta",
            bases=("GEMINI_API_BASE",),
            keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            header="x-goog-api-key",
        ),
        "xai": _own("XAI", "https://api.x.ai/v1"),
        "deepseek": _own("DEEPSEEK", "https://api.deepseek.com"),
        "moonshot": _own("MOONSHOT", "https://api.moonshot.ai/v1"),
        "zai": _own("ZAI", "https://api.z.ai/api/paas/v4"),
        "dashscope": _own("DASHSCOPE", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        "mistral": _own("MISTRAL", "https://api.mistral.ai/v1"),
        "groq": _own("GROQ", "https://api.groq.com/openai/v1"),
        ROUTER: _own("OPENROUTER", "https://openrouter.ai/api/v1"),
        "lm_studio": VendorAddress(bases=("LM_STUDIO_API_BASE",)),
        "hosted_vllm": VendorAddress(bases=("HOSTED_VLLM_API_BASE",)),
    }
)

# Hosts of the same vendors, for endpoints that are set by their address.
_HOSTS = {
    "api.openai.com": "openai",
    "api.x.ai": "xai",
    "api.deepseek.com": "deepseek",
    "api.moonshot.ai": "moonshot",
    "api.moonshot.cn": "moonshot",
    "api.z.ai": "zai",
    "open.bigmodel.cn": "zai",
    "dashscope.aliyuncs.com": "dashscope",
    "dashscope-intl.aliyuncs.com": "dashscope",
    "api.mistral.ai": "mistral",
    "api.groq.com": "groq",
    "openrouter.ai": ROUTER,
    "generativelanguage.googleapis.com": "gemini",
}
HOSTED = frozenset(_HOSTS.values())


def vendor_at(host: str) -> str:
    """Return the vendor behind a host, "" where it is none of those known."""
    return _HOSTS.get(host.lower(), "")


def url_of(base: str, wire: WireFormat, name: str) -> str:
    """Return the address of a request."""
    if wire is WireFormat.RESPONSES:
        return f"{base}/responses"
    if wire is WireFormat.MESSAGES:
        path = "/v1/messages"
        return base if base.endswith(path) else base.removesuffix("/v1") + path
    return f"{base}/models/{name}:generateContent" if wire is WireFormat.GEMINI else f"{base}/chat/completions"


def _first(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
