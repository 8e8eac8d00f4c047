from __future__ import annotations

import pytest

from rxworker.tools.signature import parse_docstring

GOOGLE = """Look the weather up.

    It asks the nearest station.

    Args:
        city: Where to look: a city,
            without its country.
        days (int, optional): How far ahead.
        *names: More.
        unit (Callable[[int], str]): For the numbers.

    Returns:
        The weather: in words.

    Raises:
        KeyError: There is no such city.
    """

REST = """Look the weather up.

    It asks the nearest station.

    :param city: Where to look: a city,
        without its country.
    :param int days: How far ahead.
    :type city: str
    :returns: The weather.
    :raises KeyError: There is no such city.
    """


NUMPY = """Look the weather up.

    It asks the nearest station.

    Parameters
    ----------
    city : str
        Where to look: a city,
        without its country.

        Not an address.
    days, hours : int, optional
        How far ahead.
    unit : {'celsius', 'kelvin'}, default 'celsius'
        For the numbers.
    *names
        More.
    empty : str

    Returns
    -------
    str
        The weather: in words.

    Other Parameters
    ----------------
    seed : int
        For the noise.

    Raises
    ------
    KeyError
        There is no such city.

    Notes
    -----
    It is slow.

    See Also
    --------
    other : Something else.
    """

BOTH = "Look the weather up.\n\nIt asks the nearest station."
NOTED = f"{BOTH}\n\nNotes\n-----\nIt is slow."
PLACE, AHEAD = "Where to look: a city, without its country.", "How far ahead."
IN_GOOGLE = {"city": PLACE, "days": AHEAD, "names": "More.", "unit": "For the numbers."}
IN_NUMPY = {
    "city": f"{PLACE} Not an address.",
    "days": AHEAD,
    "hours": AHEAD,
    "unit": "For the numbers.",
    "names": "More.",
    "empty": "",
    "seed": "For the noise.",
}
# The text of a docstring, and what is read of it: the description and those of the parameters.
READ: dict[str, tuple[str | None, str, dict[str, str]]] = {
    "Google's style": (GOOGLE, BOTH, IN_GOOGLE),
    "the style of reST": (REST, BOTH, {"city": PLACE, "days": AHEAD}),
    "NumPy's style": (NUMPY, NOTED, IN_NUMPY),
    "no docstring": (None, "", {}),
    "an empty docstring": ("", "", {}),
    "a blank docstring": ("   \n  ", "", {}),
    "text after a section": ("Sum.\n\nArgs:\n    a: One.\n\nUse it well.", "Sum.\n\nUse it well.", {"a": "One."}),
    "a name without text": ("Sum.\n\nArgs:\n    a:\n        One.\n    b:", "Sum.", {"a": "One.", "b": ""}),
    "blank lines between": ("S.\n\nArgs:\n    a: One.\n\n    b: Two.", "S.", {"a": "One.", "b": "Two."}),
    "no summary line": ("\n    Args:\n        a: One.\n    ", "", {"a": "One."}),
    "no entries in NumPy's style": ("Sum.\n\nParameters\n----------\n\nReturns\n-------\nint", "Sum.", {}),
}


@pytest.mark.parametrize("name", READ)
def test_a_docstring_has_a_description_and_parameters(name: str) -> None:
    text, description, parameters = READ[name]
    read = parse_docstring(text)
    assert (read.description, read.parameters) == (description, parameters)


@pytest.mark.parametrize(
    "text",
    [
        "Note: look twice.\n\nThe order: first a, then b.",
        "Parameters\nmay be given.\n\nReturns\n\nNothing.",
        "Sum.\n\n----\n\nName  Text\n----  ----\na     b",
    ],
)
def test_what_only_resembles_a_section_stays_in_the_description(text: str) -> None:
    read = parse_docstring(text)
    assert (read.description, read.parameters) == (text, {})
