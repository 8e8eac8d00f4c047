"""How money and durations are shown, on every screen. The page has the same in ``format.js``. Pure."""

from __future__ import annotations

from decimal import Decimal
from math import floor


def money(cost: float, currency: str = "") -> str:
    """A cost: with cents, and with four significant digits where it is less than one.

    >>> money(17.7119, "USD"), money(0.00004213, "USD"), money(1234.0)
    ('17.71 USD', '0.00004213 USD', '1,234')
    """
    if abs(cost) >= 1 or not cost:
        text = f"{cost:,.2f}".removesuffix(".00")
    else:
        text = f"{Decimal(f'{cost:.4g}').normalize():f}"
    return f"{text} {currency}".rstrip()


def duration(seconds: float) -> str:
    """A duration, in its two largest units.

    >>> duration(0.003896), duration(2), duration(42.4), duration(300), duration(155 * 3600 + 300)
    ('4 ms', '2.0 s', '42 s', '5 min 0 s', '6 d 11 h')
    """
    if 0.0005 <= seconds < 0.095:
        return f"{seconds * 1000:.0f} ms"
    if seconds <= 10:
        return f"{max(seconds, 0.0):.1f} s"
    whole = floor(seconds + 0.5)
    for size, unit, smaller in ((86_400, "d", "h"), (3_600, "h", "min"), (60, "min", "s")):
        if whole >= size:
            return f"{whole // size:,} {unit} {whole % size // LESS[smaller]} {smaller}"
    return f"{whole} s"


LESS = {"h": 3_600, "min": 60, "s": 1}
