"""Marble drawings as SVG: every drawing of the pages and docstrings is drawn, and its columns stay aligned."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown import markdown  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from marble import is_drawing, parse, svg

ROOT = Path(__file__).parents[2]
BOX = re.compile(r"^ *\[ .+ \]", re.MULTILINE)


def drawings() -> list[str]:
    """The drawings of the pages and of the docstrings: texts with an operator in its box."""
    fences = [
        fence
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for fence in re.findall(r"^```text\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    ]
    indented = [
        block
        for module in sorted((ROOT / "rxworker").rglob("*.py"))
        for block in re.split(r"\n\s*\n", module.read_text("utf-8"))
        if block.startswith("        ")
    ]
    return [text for text in (*fences, *indented) if BOX.search(text)]


def draw(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg(text))


def places(drawing: ElementTree.Element) -> dict[str, tuple[float, float]]:
    """Where the centre of each text is."""
    texts = drawing.iter("{http://www.w3.org/2000/svg}text")
    return {t.text or "": (float(t.attrib["x"]), float(t.attrib["y"])) for t in texts}


def names(drawing: ElementTree.Element) -> list[str]:
    return [element.attrib.get("class", "") for element in drawing.iter()]


def test_every_drawing_of_the_pages_and_docstrings_is_drawn_with_all_its_items() -> None:
    found = drawings()
    assert len(found) >= 70
    for text in found:
        assert is_drawing(text), text
        drawing = draw(text)
        shown = " ".join(drawing.itertext())
        for line in parse(text):
            for piece in line:
                if piece.kind == "stream":
                    items = re.findall(r"[\w\"{}\[\]:]+", piece.text)
                    assert [item for item in items if item not in shown and len(item) == 1] == []
        width, height = float(drawing.attrib["width"]), float(drawing.attrib["height"])
        assert all(0 < x < width and 0 < y < height for x, y in places(drawing).values())


def test_what_happens_in_one_column_is_drawn_below_each_other() -> None:
    at = places(draw("-a---b-|\n[ only(b) ]\n-----c-|"))
    assert at["b"][0] == at["c"][0]
    assert at["b"][1] < at["only(b)"][1] < at["c"][1]
    assert at["a"][0] < at["b"][0]


def test_a_line_is_read_as_label_stream_operator_and_note() -> None:
    line = "meta:  -u--|   [ count ]   -1-|   u is a usage"
    assert [(piece.kind, piece.text) for piece in parse(line)[0]] == [
        ("label", "meta:"),
        ("stream", "-u--|"),
        ("box", "[ count ]"),
        ("stream", "-1-|"),
        ("note", "u is a usage"),
    ]
    assert [piece.text for piece in parse("-a-|   one    two")[0]] == ["-a-|", "one two"]
    assert [piece.column for piece in parse("    yes   no")[0]] == [0, 6]


def test_labels_take_little_room_where_all_streams_are_right_of_them() -> None:
    wide, narrow = (draw("label      -a-|\n[ x ]\n-b-|"), draw("label      -a-|\n[ x ]\n           -b-|"))
    assert float(narrow.attrib["width"]) < float(wide.attrib["width"]) - 50
    assert places(narrow)["a"][0] == places(narrow)["b"][0] > places(narrow)["label"][0] + 40


def test_an_item_has_one_colour_in_lower_and_upper_case() -> None:
    drawn = names(draw("-a-b-|\n[ x ]\n-A-(b,A)-|"))
    items = [name for name in drawn if name.startswith("marble-item")]
    assert [name[-1] for name in items] == ["1", "2", "1", "2", "1"]


def test_completion_errors_groups_and_inner_streams_have_their_signs() -> None:
    drawn = names(draw("-a-#\n[ x ]\n-(a,b)-(c,|)"))
    assert [drawn.count(f"marble-{name}") for name in ("error", "group", "end")] == [1, 1, 1]
    assert "marble-fork" in names(draw("-s-|\n[ x ]\n-+-|\n +s|"))


@pytest.mark.parametrize("ending", ["|", "#", "(a,|)"])
def test_only_a_stream_that_has_not_ended_has_an_arrow(ending: str) -> None:
    def lines(text: str) -> int:
        return names(draw(text)).count("marble-line")

    assert lines(f"-a--\n[ x ]\n-a-{ending}") == lines("-a--\n[ x ]\n-a--") - 1


def test_a_drawing_takes_its_colours_from_the_page_and_escapes_what_it_shows() -> None:
    drawn = svg('-<-|    "<" & more\n[ x ]\n-<-|')
    assert not re.search(r"#[0-9a-f]{3,6}\b|fill|stroke|color", drawn)
    assert "&lt;" in drawn
    assert "marble-note" in drawn


@pytest.mark.parametrize(
    "text", ["['Hel', 'lo']\n", "1-4 Delta\n3-4 Delta\n", "a ─▶ b\n", "True", "--flag  what it does"]
)
def test_other_text_is_not_a_drawing(text: str) -> None:
    assert not is_drawing(text)


def test_fences_and_indented_blocks_become_figures_and_doctests_code() -> None:
    page = "```text\n-a-|\n[ x ]\n-b-|\n```\n\nand\n\n    -a-|\n    [ x ]\n    -b-|\n\n>>> [1][0]\n1\n\n    code\n"
    html = str(markdown(page, extensions=["fenced_code", "marble_extension"]))
    assert html.count('<figure class="marble-figure" data-search-exclude><svg') == 2
    assert "&gt;&gt;&gt; [1][0]\n1\n</code></pre>" in html
    assert "<code>code\n</code>" in html
