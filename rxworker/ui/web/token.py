"""The token that opens the server, and the cookie that a browser carries in its place.

A browser cannot put a header onto a WebSocket. It brings the token once, with the address of the page, and gets a cookie that says
that it had it. The cookie holds no token, but what only somebody with the token can work out; it is good until the token is changed.
"""

from __future__ import annotations

import hmac
from hashlib import sha256


class Token:
    """A token, and what is worked out from it.

    Attributes:
        cookie: The name of the cookie. Cookies do not know ports: two servers of one machine with tokens of their own get cookies of
            their own.

    >>> token = Token("a long secret")
    >>> token.fits("a long secret"), token.fits("another"), token.fits_cookie(token.cookie_value)
    (True, False, True)
    """

    __slots__ = ("_token", "cookie", "cookie_value")

    def __init__(self, token: str) -> None:
        self._token = token.encode("utf-8", "surrogatepass")
        self.cookie = f"rxworker_{self._derived(b'cookie name')[:12]}"
        self.cookie_value = self._derived(b"cookie value")

    def fits(self, given: str) -> bool:
        """Whether it is the token. How long that takes says nothing about the token."""
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self._token)

    def fits_cookie(self, given: str) -> bool:
        """Whether it is the cookie's value."""
        return hmac.compare_digest(
            given.encode("utf-8", "surrogatepass"), self.cookie_value.encode()
        )

    def _derived(self, purpose: bytes) -> str:
        return hmac.new(self._token, b"rxworker " + purpose, sha256).hexdigest()


__all__ = ["Token"]
