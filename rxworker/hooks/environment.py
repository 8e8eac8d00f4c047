"""Which variables of this process a command may see."""

from __future__ import annotations

import re
from collections.abc import Mapping

SECRET_NAME = re.compile(
    r"API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|KEYS?($|_|\d)|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE"
    r"|(^|_)(PASS|PWD|AUTH|PAT|DSN|COOKIE)$|CREDENTIAL|AUTHORIZATION",
    re.IGNORECASE,
)
SECRET_VALUE = re.compile(
    r"^\s*((sk|gsk|xai|pplx|csk|nvapi)[-_]|fw_|AIza|AKIA|ghp_|gho_|ghs_|github_pat_|hf_|r8_|Bearer )"
    r"|://[^/\s:@]*:[^/\s@]+@|://[^/\s:@]{20,}@"
)
# The working directory, not a password.
PLAIN = frozenset({"PWD", "OLDPWD"})


def harmless_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that do not look as if they held a secret, by their name or by their value.

    >>> harmless_environment({"HOME": "/home/ada", "ANTHROPIC_API_KEY": "x", "MINE": "sk-1", "PROXY": "http://a:b@c"})
    {'HOME': '/home/ada'}
    """
    return {
        name: value
        for name, value in environment.items()
        if name in PLAIN or not (SECRET_NAME.search(name) or SECRET_VALUE.search(value))
    }


__all__ = ["harmless_environment"]
