from rxworker.ui.clean import clean, one_line


def test_escape_sequences_become_pictures() -> None:
    assert clean("\x1b]0;title\x07 \x9b31m \x7f") == "␛]0;title␇ �31m ␡"


def test_line_ends_and_tabs_stay_and_carriage_returns_go() -> None:
    assert clean("a\r\nb\tc\rd") == "a\nb\tcd"


def test_other_scripts_are_left_alone() -> None:
    assert clean("京都 👩‍🚀 é") == "京都 👩‍🚀 é"


def test_one_line_joins_and_cuts() -> None:
    assert one_line("a\n\n b\tc") == "a b c"
    assert one_line("x" * 50, 10) == "x" * 7 + "..."


def test_a_line_that_fits_is_not_cut() -> None:
    assert one_line("abcd", 4) == "abcd"


def test_characters_that_reorder_a_text_do_not_stay() -> None:
    assert clean("a\u202eb\u2066c\u206a") == "a\ufffdb\ufffdc\ufffd"
    assert clean("a\u200eb\u200fc\u061cd") == "abcd"
    assert clean("a\u2028b\u2029c") == "a\nb\nc"
