"""The addresses of the vendors, and how they expect a key: what litellm would look up for them, without litellm.

Names of vendors and of environment variables are those of litellm, so that settings for litellm work here. Vendors that
only differ by their address are in a file of litellm (docs.litellm.ai, "Adding OpenAI-Compatible Providers"), which is
read without importing the library.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bot.api import ConfigError
from plugins.models._profiles import ROUTER, WireFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorAddress:
    """The address of a vendor, and the variables that may hold another address and the key.

    ``base`` is "" for your own server; one without ``key_variables`` needs none. ``path`` is what every address ends
    with. A model named by eight letters and digits is at ``deployment_base``, where a vendor has that. While one of
    ``library_variables`` is set, the library calls the vendor: they ask for what only it can do.
    """

    base: str = ""
    base_variables: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()
    key_header: str = "Authorization"
    headers: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    deployment_base: str = ""
    library_variables: tuple[str, ...] = ()

    def base_address(self, configured: str | None, setting: str, name: str = "") -> str:
        """Return the base address of a model; raises ConfigError where there is none."""
        deployed = self.deployment_base if _DEPLOYMENT_NAME.fullmatch(name) else ""
        found = configured or deployed.format(name=name) or _first_set_variable(self.base_variables) or self.base
        if not found:
            message = f"no address is known for this model: set {setting}"
            raise ConfigError(message)
        return found.rstrip("/").removesuffix(self.path) + self.path

    @property
    def needs_library(self) -> bool:
        """Whether the environment asks for what only the library can do."""
        return _first_set_variable(self.library_variables) is not None

    def api_key(self, configured: str | None) -> str | None:
        """Return the key, from config or from the environment."""
        return configured or _first_set_variable(self.key_variables)

    def request_headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of a request."""
        if key is None:
            return dict(self.headers)
        return {**self.headers, self.key_header: f"Bearer {key}" if self.key_header == "Authorization" else key}


_DEPLOYMENT_NAME = re.compile(r"[A-Za-z0-9]{8}")

# The file of litellm with vendors of the OpenAI form, and what may be in its entries: with anything else litellm does
# more than look up an address. A mapping counts where it renames only fields that are not sent.
VENDOR_FILE = "llms/openai_like/providers.json"
_LISTED_FIELDS = frozenset(
    {"base_url", "api_key_env", "api_base_env", "base_class", "param_mappings", "special_handling"}
    | {"supported_endpoints"}
)
_UNSENT_FIELDS = frozenset({"max_completion_tokens"})
# One makes lists of parts texts, which are sent as texts anyway; the other is for another form of requests.
_IDLE_SWITCHES = frozenset({"convert_content_list_to_string", "force_store_false"})


def _env_address(name: str, base: str, *more_key_variables: str) -> VendorAddress:
    key_variables = (f"{name}_API_KEY", *more_key_variables)
    return VendorAddress(base=base, base_variables=(f"{name}_API_BASE",), key_variables=key_variables)


VENDOR_ADDRESSES: Mapping[str, VendorAddress] = MappingProxyType(
    {
        "openai": VendorAddress(
            base="https://api.openai.com/v1",
            base_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
            key_variables=("OPENAI_API_KEY",),
        ),
        "anthropic": VendorAddress(
            base="https://api.anthropic.com",
            base_variables=("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
            key_variables=("ANTHROPIC_API_KEY",),
            key_header="x-api-key",
            headers=MappingProxyType({"anthropic-version": "2023-06-01"}),
        ),
        "gemini": VendorAddress(
            base="https://generativelanguage.googleapis.com/v1beta",
            base_variables=("GEMINI_API_BASE",),
            key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            key_header="x-goog-api-key",
        ),
        "xai": _env_address("XAI", "https://api.x.ai/v1"),
        "deepseek": _env_address("DEEPSEEK", "https://api.deepseek.com"),
        "moonshot": _env_address("MOONSHOT", "https://api.moonshot.ai/v1"),
        "zai": _env_address("ZAI", "https://api.z.ai/api/paas/v4"),
        "dashscope": _env_address("DASHSCOPE", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        "mistral": _env_address("MISTRAL", "https://api.mistral.ai/v1"),
        "groq": _env_address("GROQ", "https://api.groq.com/openai/v1"),
        "cerebras": _env_address("CEREBRAS", "https://api.cerebras.ai/v1"),
        "hyperbolic": _env_address("HYPERBOLIC", "https://api.hyperbolic.xyz/v1"),
        "lambda_ai": _env_address("LAMBDA", "https://api.lambda.ai/v1"),
        "nebius": _env_address("NEBIUS", "https://api.studio.nebius.ai/v1"),
        "novita": _env_address("NOVITA", "https://api.novita.ai/v3/openai"),
        "nvidia_nim": _env_address("NVIDIA_NIM", "https://integrate.api.nvidia.com/v1"),
        "ai21_chat": _env_address("AI21", "https://api.ai21.com/studio/v1"),
        "empower": _env_address("EMPOWER", "https://app.empower.dev/api/v1"),
        "friendliai": VendorAddress(
            base="https://api.friendli.ai/serverless/v1",
            base_variables=("FRIENDLI_API_BASE",),
            key_variables=("FRIENDLIAI_API_KEY", "FRIENDLI_TOKEN"),
        ),
        "galadriel": _env_address("GALADRIEL", "https://api.galadriel.com/v1"),
        "github": _env_address("GITHUB", "https://models.inference.ai.azure.com"),
        "meta_llama": _env_address("LLAMA", "https://api.llama.com/compat/v1"),
        "modelscope": _env_address("MODELSCOPE", "https://api-inference.modelscope.cn/v1"),
        "tencent": _env_address("TENCENT", "https://tokenhub-intl.tencentcloudmaas.com/v1"),
        "together_ai": VendorAddress(
            base="https://api.together.ai/v1",
            base_variables=("TOGETHER_AI_API_BASE",),
            key_variables=("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_TOKEN"),
        ),
        "vercel_ai_gateway": _env_address("VERCEL_AI_GATEWAY", "https://ai-gateway.vercel.sh/v1", "VERCEL_OIDC_TOKEN"),
        "wandb": _env_address("WANDB", "https://api.inference.wandb.ai/v1"),
        "deepinfra": _env_address("DEEPINFRA", "https://api.deepinfra.com/v1/openai"),
        "sambanova": _env_address("SAMBANOVA", "https://api.sambanova.ai/v1"),
        "volcengine": _env_address("VOLCENGINE", "https://ark.cn-beijing.volces.com/api/v3"),
        "nscale": _env_address("NSCALE", "https://inference.api.nscale.com/v1"),
        "inception": _env_address("INCEPTION", "https://api.inceptionlabs.ai/v1"),
        "minimax": _env_address("MINIMAX", "https://api.minimax.io/v1"),
        "ovhcloud": _env_address("OVHCLOUD", "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1"),
        "codestral": _env_address("CODESTRAL", "https://codestral.mistral.ai/v1"),
        "qwencloud": _env_address(
            "QWENCLOUD", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"
        ),
        "qwen_ai_platform": _env_address(
            "QWEN_AI_PLATFORM", "https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"
        ),
        "cometapi": VendorAddress(
            base="https://api.cometapi.com/v1",
            base_variables=("COMETAPI_API_BASE",),
            key_variables=("COMETAPI_KEY",),
        ),
        "featherless_ai": VendorAddress(
            base="https://api.featherless.ai/v1",
            base_variables=("FEATHERLESS_AI_API_BASE", "FEATHERLESS_API_BASE"),
            key_variables=("FEATHERLESS_AI_API_KEY", "FEATHERLESS_API_KEY"),
        ),
        "fireworks_ai": VendorAddress(
            base="https://api.fireworks.ai/inference/v1",
            base_variables=("FIREWORKS_API_BASE",),
            key_variables=("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
        ),
        "baseten": VendorAddress(
            base="https://inference.baseten.co/v1",
            key_variables=("BASETEN_API_KEY",),
            deployment_base="https://model-{name}.api.baseten.co/environments/production/sync/v1",
        ),
        # The v1 API of Azure, which has no versions by date. Source: learn.microsoft.com, "Azure OpenAI v1 API".
        "azure": VendorAddress(
            base_variables=("AZURE_API_BASE",),
            key_variables=("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
            key_header="api-key",
            path="/openai/v1",
            library_variables=("AZURE_API_VERSION", "AZURE_AD_TOKEN", "AZURE_CLIENT_ID", "AZURE_USERNAME"),
        ),
        ROUTER: _env_address("OPENROUTER", "https://openrouter.ai/api/v1"),
        "custom_openai": VendorAddress(),
        "lm_studio": VendorAddress(base_variables=("LM_STUDIO_API_BASE",)),
        "hosted_vllm": VendorAddress(base_variables=("HOSTED_VLLM_API_BASE",)),
    }
)


def vendor_address(vendor: str) -> VendorAddress | None:
    """Return where a vendor is called directly, None for one whose calls litellm has to translate."""
    return VENDOR_ADDRESSES.get(vendor) or listed_addresses().get(vendor)


@cache
def listed_addresses() -> Mapping[str, VendorAddress]:
    """Return the vendors of litellm's file that only differ by their address, by name."""
    listed: Mapping[str, Mapping[str, Any]] = json.loads(library_file(VENDOR_FILE).read_bytes())
    return {
        vendor: VendorAddress(
            base=entry["base_url"],
            base_variables=(entry["api_base_env"],) if entry.get("api_base_env") else (),
            key_variables=(entry["api_key_env"],),
        )
        for vendor, entry in listed.items()
        if entry.keys() <= _LISTED_FIELDS
        and entry.get("param_mappings", {}).keys() <= _UNSENT_FIELDS
        and entry.get("special_handling", {}).keys() <= _IDLE_SWITCHES
    }


def library_file(name: str) -> Path:
    """Return a file of the library litellm, which is not imported for it; raises ConfigError without the library."""
    found = find_spec("litellm")
    if found is None or found.origin is None:
        message = "the library litellm is not installed: install what Foxcast needs again"
        raise ConfigError(message)
    return Path(found.origin).parent / name


# Hosts of the same vendors, for endpoints that are set by their address.
_VENDOR_HOSTS = {
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
HOSTED_VENDORS = frozenset(_VENDOR_HOSTS.values())


def vendor_of_host(host: str) -> str:
    """Return the vendor of a host, "" where it is none of those known."""
    return _VENDOR_HOSTS.get(host.lower(), "")


# A router lists its models for everybody; this path needs the key.
_KEY_PATHS = {ROUTER: "/key"}


def key_path(vendor: str) -> str:
    """Return the path below the address of a vendor that shows whether a key is valid, "" for the list of models."""
    return _KEY_PATHS.get(vendor, "")


def sent_model_name(vendor: str, name: str) -> str:
    """Return the name of a model as its vendor wants it: Fireworks names its own models by their path."""
    if vendor != "fireworks_ai" or name.startswith(("accounts/", "FW-")) or "#" in name:
        return name
    if name.startswith(("routers/", "models/")):
        return f"accounts/fireworks/{name}"
    return f"accounts/fireworks/{'routers' if name.endswith('-fast') else 'models'}/{name}"


def request_url(base: str, wire: WireFormat, name: str) -> str:
    """Return the address of a request."""
    if wire is WireFormat.RESPONSES:
        return f"{base}/responses"
    if wire is WireFormat.MESSAGES:
        path = "/v1/messages"
        return base if base.endswith(path) else base.removesuffix("/v1") + path
    return f"{base}/models/{name}:generateContent" if wire is WireFormat.GEMINI else f"{base}/chat/completions"


def _first_set_variable(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
