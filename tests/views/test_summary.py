"""A response in one value."""

from __future__ import annotations

from rxworker.views.summary import CalledTool


def test_null_in_place_of_arguments_is_an_object_without_members() -> None:
    """Groq writes it for a call without arguments; hooks and the tool receive an object as well."""
    given = ("null", " null\n", "", " ")
    assert [CalledTool("1", "look", text).input for text in given] == [{}] * len(given)
