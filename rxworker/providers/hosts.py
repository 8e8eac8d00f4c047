"""The hosts that speak the protocols of OpenAI and Anthropic: where these are, and with which key.

A row is used by the end of a host, so one row serves the regions and resources of a service. Sources are the pages of
the services for these protocols, and the official clients for Azure (``AnthropicFoundry``) and Amazon Bedrock's mantle
(``AnthropicBedrockMantle``, ``openai.providers.bedrock``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct

from rxworker.providers.endpoint import host_of

A = TypeVar("A")
BEARER = ("authorization",)
X_API_KEY = ("x-api-key",)


class Host(Struct, frozen=True):
    """One protocol at one host.

    Attributes:
        variable: The environment variable of the key.
        root: The path of the protocol, for an address without a path.
        headers: The headers that carry the key; ``authorization`` carries it as a bearer's, and stands alone.
    """

    variable: str
    root: str = ""
    headers: tuple[str, ...] = BEARER

    def authorization(self, key: str) -> dict[str, str]:
        """The headers with the key.

        >>> Host("K").authorization("sk-1"), Host("K", headers=("x-api-key",)).authorization("sk-1")
        ({'authorization': 'Bearer sk-1'}, {'x-api-key': 'sk-1'})
        """
        # A key of Azure has no dots; a token of Entra, which is a JWT, has.
        if self.headers == BEARER or ("api-key" in self.headers and "." in key):
            return {"authorization": f"Bearer {key}"}
        return dict.fromkeys(self.headers, key)


_AZURE = Host("AZURE_OPENAI_API_KEY", "/openai/v1", ("api-key",))
_DASHSCOPE = Host("DASHSCOPE_API_KEY", "/compatible-mode/v1")

# Chat Completions and Responses. A root without a version is that of an address without a row, /v1.
OPENAI_HOSTS: dict[str, Host] = {
    "openai.com": Host("OPENAI_API_KEY"),
    "openai.azure.com": _AZURE,
    "services.ai.azure.com": _AZURE,
    "cognitiveservices.azure.com": _AZURE,
    "api.aws": Host("AWS_BEARER_TOKEN_BEDROCK", "/openai/v1"),
    "generativelanguage.googleapis.com": Host("GEMINI_API_KEY", "/v1beta/openai"),
    "api.cerebras.ai": Host("CEREBRAS_API_KEY"),
    "api.deepseek.com": Host("DEEPSEEK_API_KEY"),
    "api.groq.com": Host("GROQ_API_KEY", "/openai/v1"),
    "api.kimi.com": Host("KIMI_API_KEY", "/coding/v1"),
    "api.minimax.io": Host("MINIMAX_API_KEY"),
    "api.minimaxi.com": Host("MINIMAX_API_KEY"),
    "api.mistral.ai": Host("MISTRAL_API_KEY"),
    "api.moonshot.ai": Host("MOONSHOT_API_KEY"),
    "api.moonshot.cn": Host("MOONSHOT_API_KEY"),
    "api.siliconflow.cn": Host("SILICONFLOW_API_KEY"),
    "api.siliconflow.com": Host("SILICONFLOW_API_KEY"),
    "api.together.ai": Host("TOGETHER_API_KEY"),
    "api.together.xyz": Host("TOGETHER_API_KEY"),
    "api.x.ai": Host("XAI_API_KEY"),
    "api.z.ai": Host("ZAI_API_KEY", "/api/paas/v4"),
    "dashscope-intl.aliyuncs.com": _DASHSCOPE,
    "dashscope-us.aliyuncs.com": _DASHSCOPE,
    "dashscope.aliyuncs.com": _DASHSCOPE,
    "open.bigmodel.cn": Host("ZAI_API_KEY", "/api/paas/v4"),
    "openrouter.ai": Host("OPENROUTER_API_KEY", "/api/v1"),
}

# The compatible services take a bearer's, which is what the official client sends (anthropic 2.14). The root is
# followed by /v1.
ANTHROPIC_HOSTS: dict[str, Host] = {
    "anthropic.com": Host("ANTHROPIC_API_KEY", headers=X_API_KEY),
    # The official client sends the key in both.
    "services.ai.azure.com": Host("ANTHROPIC_FOUNDRY_API_KEY", "/anthropic", ("x-api-key", "api-key")),
    "api.aws": Host("AWS_BEARER_TOKEN_BEDROCK", "/anthropic"),
    "api.deepseek.com": Host("DEEPSEEK_API_KEY", "/anthropic"),
    "api.kimi.com": Host("KIMI_API_KEY", "/coding"),
    "api.minimax.io": Host("MINIMAX_API_KEY", "/anthropic"),
    "api.minimaxi.com": Host("MINIMAX_API_KEY", "/anthropic"),
    "api.moonshot.ai": Host("MOONSHOT_API_KEY", "/anthropic"),
    "api.moonshot.cn": Host("MOONSHOT_API_KEY", "/anthropic"),
    "api.x.ai": Host("XAI_API_KEY"),
    "api.z.ai": Host("ZAI_API_KEY", "/api/anthropic"),
    "dashscope-intl.aliyuncs.com": Host("DASHSCOPE_API_KEY", "/apps/anthropic"),
    "dashscope.aliyuncs.com": Host("DASHSCOPE_API_KEY", "/apps/anthropic"),
    "open.bigmodel.cn": Host("ZAI_API_KEY", "/api/anthropic"),
    "openrouter.ai": Host("OPENROUTER_API_KEY", "/api"),
}


def row_of(rows: Mapping[str, A], url: str, otherwise: A) -> A:
    """The row of the host of an address, by the host or its end.

    >>> row_of(OPENAI_HOSTS, "https://me.openai.azure.com", Host("K")).root
    '/openai/v1'
    >>> row_of(OPENAI_HOSTS, "http://127.0.0.1:8000/v1", Host("K")).variable
    'K'
    """
    labels = host_of(url).rstrip(".").split(".")
    for place in range(len(labels)):  # the longest end first
        if (end := ".".join(labels[place:])) in rows:
            return rows[end]
    return otherwise


@lru_cache(maxsize=64)  # used for each request, of the same few addresses
def openai_host(url: str) -> Host | None:
    """The row of an address that speaks a protocol of OpenAI's, if there is one."""
    return row_of(OPENAI_HOSTS, url, None)


@lru_cache(maxsize=64)  # the same
def anthropic_host(url: str) -> Host | None:
    """The row of an address that speaks Anthropic's protocol, if there is one."""
    return row_of(ANTHROPIC_HOSTS, url, None)
