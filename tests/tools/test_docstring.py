from __future__ import annotations

from typing import Any

import pytest

from rxworker import tool
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


def test_google_style_is_read() -> None:
    read = parse_docstring(GOOGLE)
    assert read.description == "Look the weather up.\n\nIt asks the nearest station."
    assert read.parameters == {
        "city": "Where to look: a city, without its country.",
        "days": "How far ahead.",
        "names": "More.",
        "unit": "For the numbers.",
    }


def test_rest_style_is_read() -> None:
    read = parse_docstring(REST)
    assert read.description == "Look the weather up.\n\nIt asks the nearest station."
    assert read.parameters == {"city": "Where to look: a city, without its country.", "days": "How far ahead."}


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_without_a_docstring_there_is_no_description(text: str | None) -> None:
    assert parse_docstring(text).description == ""
    assert parse_docstring(text).parameters == {}


def test_text_after_a_section_belongs_to_the_description() -> None:
    read = parse_docstring("Sum.\n\nArgs:\n    a: One.\n\nUse it sparingly.")
    assert read.description == "Sum.\n\nUse it sparingly."
    assert read.parameters == {"a": "One."}


def test_a_parameter_may_be_named_without_text() -> None:
    assert parse_docstring("Sum.\n\nArgs:\n    a:\n        One.\n    b:").parameters == {"a": "One.", "b": ""}


def test_a_line_with_a_colon_within_a_description_is_not_a_section() -> None:
    text = "Note: look twice.\n\nThe order: first a, then b."
    assert parse_docstring(text).description == text


def test_blank_lines_between_parameters_change_nothing() -> None:
    assert parse_docstring("S.\n\nArgs:\n    a: One.\n\n    b: Two.").parameters == {"a": "One.", "b": "Two."}


def test_sections_without_the_summary_line_are_read() -> None:
    read = parse_docstring("\n    Args:\n        a: One.\n    ")
    assert (read.description, read.parameters) == ("", {"a": "One."})


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


def test_numpy_style_is_read() -> None:
    read = parse_docstring(NUMPY)
    assert read.description == ("Look the weather up.\n\nIt asks the nearest station.\n\nNotes\n-----\nIt is slow.")
    assert read.parameters == {
        "city": "Where to look: a city, without its country. Not an address.",
        "days": "How far ahead.",
        "hours": "How far ahead.",
        "unit": "For the numbers.",
        "names": "More.",
        "empty": "",
        "seed": "For the noise.",
    }


def test_a_heading_of_numpy_needs_its_line_below() -> None:
    text = "Parameters\nmay be given.\n\nReturns\n\nNothing."
    assert parse_docstring(text).description == text
    assert parse_docstring(text).parameters == {}


def test_a_numpy_section_without_entries_is_ignored() -> None:
    read = parse_docstring("Sum.\n\nParameters\n----------\n\nReturns\n-------\nint")
    assert read.description == "Sum."
    assert read.parameters == {}


def test_a_table_and_a_rule_stay_in_the_description() -> None:
    text = "Sum.\n\n----\n\nName  Text\n----  ----\na     b"
    assert parse_docstring(text).description == text


def test_a_tool_shows_what_a_numpy_docstring_contains() -> None:
    @tool
    def forecast(city: str, days: int = 1) -> str:
        """Look the weather up.

        Parameters
        ----------
        city : str
            Where to look.
        days : int, default 1
            How far ahead.

        Returns
        -------
        str
            The weather.
        """
        return f"{city} {days}"

    properties: Any = forecast.meta.input_schema["properties"]
    assert forecast.meta.description == "Look the weather up."
    assert properties["city"]["description"] == "Where to look."
    assert properties["days"]["description"] == "How far ahead."
