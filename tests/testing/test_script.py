import pytest

from rxworker.testing import Script, ScriptExhaustedError


def test_answers_come_in_order_with_their_numbers() -> None:
    script = Script[str, str](["a", "b"])

    assert [script.answer("?"), script.answer("?")] == [(1, "a"), (2, "b")]


def test_an_exhausted_script_reports_how_many_there_were() -> None:
    script = Script[str, str](["a"])
    script.answer("?")

    with pytest.raises(ScriptExhaustedError, match="request 2 came, but only 1 answer"):
        script.answer("?")


def test_a_function_answers_any_number_of_requests() -> None:
    script = Script[str, str](str.upper)

    assert [script.answer("a"), script.answer("b")] == [(1, "A"), (2, "B")]
