"""Markdown as it streams: whatever the pieces are, it comes to what the whole text is."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from playwright.async_api import Page, expect

from rxworker.testing import say, think
from rxworker.ui.web import Settings
from tests.ui.browser.conftest import Desk, GatedModel

CUT = """
async ([seed, rounds]) => {
  const { Markdown } = await import("/static/views/markdown.js");
  const parts = [
    "#", "## ", " ", "*", "**", "_", "`", "```py\\n", "```\\n", "\\n", "\\n\\n", "- ", "1. ", "12. ", "> ",
    "| a | b |\\n", "|--|--|\\n", "| 1 | 2 |\\n",
    "[x](http://x.y)", "![", "$x$", "$$\\n", "~~", "<br>", "word", "é", "😀", "\\t", "    ", "- [ ] ", "- [x] ",
    "---\\n", "\\\\", "one\\n", "* star\\n", "  nested", "a_b_c", "2*3*4", "https://a.b/c ",
  ];
  const random = () => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff;
  const tags = (node) => [...node.querySelectorAll(":not(p, span)")].map((one) => one.tagName);
  const shown = (node) => node.textContent.replace(/\\s/g, "") + tags(node);
  const different = [];
  for (let round = 0; round < rounds; round += 1) {
    const text = Array.from({ length: 1 + random() * 25 }, () => parts[Math.floor(random() * parts.length)]).join("");
    const [whole, cut] = [document.createElement("div"), document.createElement("div")];
    const growing = new Markdown(cut), pieces = [];
    const once = new Markdown(whole);
    once.grow([text]);
    once.end();
    for (let at = 0; at < text.length;) {
      const length = 1 + Math.floor(random() * 4);
      pieces.push(text.slice(at, at + length));
      at += length;
      growing.grow(pieces);
    }
    growing.end();
    if (shown(whole) !== shown(cut)) different.push([text, shown(whole), shown(cut)]);
  }
  return different;
}
"""


async def test_any_text_in_any_pieces_comes_to_the_same(desk: Desk) -> None:
    async with desk.serve(GatedModel([say("Hi")], free=True)):
        page = await desk.open()
        different: list[Any] = await page.evaluate(CUT, [20, 500])
        assert different[:3] == []


TEXT = """# Trip

A **bold** and _slanted_ snake_case_name, arr[0], `code`, ~~gone~~, $x^2$ and 5 < 6 & 7.

Then \\(a_1 \\cdot \\{b\\}\\) and \\(not, \\\\(nor, and:

\\[
\\frac{1}{2}
\\]

1. one
   - inner
2. two

- [x] done
- [ ] open

| a | b |
|---|--:|
| 1 | 2 |

| name | what the second column is about | what the third column is about | and the fourth |
|---|---|---|---|
| information | b | c | 1200000 |

> quoted

```python
x = "text"  # comment
```

[here](https://example.org/a "b"), [trap](javascript:alert(1)), <b>no</b> <script>alert(2)</script>

![cat](https://example.com/cat.png?q=secret)
"""


LINKED = [
    "https://bank.example/?evil.example",
    "evil.example is safe",
    "evil.example.com",
    "https://bank.example@evil.example",
    "bank.example@evil.example/a",
    "https://bank.example:443@evil.example/",
    "\u0435vil.example",  # a letter of another script
    "evil.example:443",
    "https:evil.example",
    "evil.example@bank.example",
    "evil.example",
    "HTTPS://Evil.example",
    "https://evil.example/b",
    "evil.example/c",
]
"""Texts of links to evil.example: those that do not hide it are the last."""
LINKS = "\n\n".join(f"[{text}](https://evil.example/a)" for text in LINKED)
PARTS = "".join(f"## Part {n}\n\nA text.\n\n- one\n- two\n\n```\ncode\n```\n\n" for n in range(100))
SIZE = 1_200_000


@pytest.mark.slow
async def test_the_elements_of_markdown_the_hosts_of_links_and_long_texts_are_shown(desk: Desk) -> None:
    thoughts = think("**Looking**\n\n- at the `sky`")
    replies = [thoughts + say(TEXT), say(LINKS), say("x" * SIZE, chunk=100_000), say(PARTS, chunk=40)]
    async with desk.asking(GatedModel(replies, free=True), status="finished") as page:
        await page.wait_for_selector(".hl-str")
        for name in ("strong", "li code"):
            assert await page.locator(f".block.thinking .text {name}").count() == 1, name
        text = page.locator(".block.text .text")
        shown = await text.inner_text()
        for word in ("snake_case_name", "arr[0]", "5 < 6 & 7", "<b>no</b> <script>alert(2)</script>"):
            assert word in shown
        names = (
            "h3 strong em code s .math.drawn ol ol>li>ul>li input[type=checkbox]:checked table td blockquote "
            "figure.code .hl-cmnt"
        )
        for name in names.split():
            assert await text.locator(name).count() > 0, name
        formulas = await text.locator(".math.drawn").evaluate_all("(nodes) => nodes.map((node) => node.dataset.source)")
        assert formulas == ["x^2", r"a_1 \cdot \{b\}", r"\frac{1}{2}"]
        links = text.locator("a[href]")
        assert await links.count() == 1
        assert await links.get_attribute("rel") == "noopener noreferrer"
        assert await links.inner_text() == "here (example.org)"
        assert await text.locator("img").count() == 0
        button = text.locator("button.image-link")
        assert await button.inner_text() == "Open the image at example.com: cat"
        heights: list[float] = (
            await text.locator("table")
            .last.locator("tbody td")
            .evaluate_all(
                "(cells) => cells.map((cell) => { const range = document.createRange(); range.selectNodeContents(cell);"
                " return range.getBoundingClientRect().height; })"
            )
        )
        assert len(set(heights)) == 1, "a word of a table is not broken"

        # A link shows its host unless its text is an address of it.
        await again(desk, page)
        await expect(page.locator(".markdown a")).to_have_count(len(LINKED))
        shown = await page.locator(".markdown a").all_text_contents()
        assert [text.endswith(" (evil.example)") for text in shown] == [True] * 10 + [False] * 4
        # A very long line is shown whole.
        await again(desk, page)
        whole = "(size) => document.querySelector('.block.text .text')?.textContent.length === size"
        await page.wait_for_function(whole, arg=SIZE)
        # The blocks of a long text are collected in parts: a browser looks at each child of an element in each frame.
        await again(desk, page)
        blocks = ".markdown :is(h4, p, ul, figure.code):not(:is(li, figure) *)"
        await expect(page.locator(blocks)).to_have_count(400)
        assert await page.locator(".markdown > *").count() < 80
        assert await page.locator(blocks).nth(399).text_content() != ""


async def again(desk: Desk, page: Page) -> None:
    """Begin another run, and wait until it has finished."""
    await desk.press(page, "New run")
    await desk.ask(page, status="finished")


async def test_code_is_shown_as_it_is_written_and_can_be_copied_and_wrapped(desk: Desk) -> None:
    model = GatedModel([say("```py\ndef f():\n    return 1\n```\nafter", chunk=1)])
    async with desk.serve(model):
        page = await desk.open()
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await desk.ask(page)
        model.let(22)
        code = page.locator("figure.code code")
        await page.wait_for_function(
            "() => document.querySelector('figure.code code')?.textContent === 'def f():\\n    ret'"
        )
        model.let_all()
        await desk.status(page, "finished")
        assert await code.inner_text() == "def f():\n    return 1\n"
        await page.locator("figure.code").get_by_role("button", name="Copy").click()
        await page.wait_for_selector("button.copy:text-is('Copied')")
        assert await page.evaluate("() => navigator.clipboard.readText()") == "def f():\n    return 1\n"
        wrap = page.get_by_role("button", name="Wrap")
        await wrap.click()
        assert re.search("wrapped", await page.locator("figure.code").get_attribute("class") or "")
        assert await wrap.get_attribute("aria-pressed") == "true"


async def test_what_is_selected_stays_while_the_text_grows(desk: Desk) -> None:
    model = GatedModel([say("First paragraph.\n\nSecond one.\n\nThird one.", chunk=1)])
    async with desk.asking(model) as page:
        model.let(33)
        await page.wait_for_selector(".markdown > p:nth-child(3)")
        await page.evaluate(
            "() => getSelection().selectAllChildren(document.querySelector('.markdown > p:nth-child(2)'))"
        )
        model.let_all()
        await desk.status(page, "finished")
        chosen: str = await page.evaluate("() => getSelection().toString()")
        assert chosen.split() == ["Second", "one."]


FORMULAS = r"""
First \(\frac{a}{b}\), and once more: \(\frac{a}{b}\), $\frac{a}{b}$.

$$
\sum_{n=1}^{\infty} \frac{1}{n^2} = \frac{\pi^2}{6} \quad \mathfrak{A} \mathbb{R}
$$

Not a formula: $\frac{a$, $\unknown$ and \(\def\a{\a\a}\a\).

$\href{javascript:alert(1)}{x}$ $\htmlClass{y}{x}$ $\includegraphics{https://example.com/a.png}$
$<img src=x onerror=alert(1)>$

$\rule{9999em}{9999em}$
"""


async def test_formulas_are_drawn_and_do_nothing_else(desk: Desk) -> None:
    """The problems of the browser, which must be none, include what its policy refuses: inline styles and scripts."""
    model = GatedModel([say(FORMULAS, chunk=7), say("Done: $x$.")])
    async with desk.asking(model) as page:
        model.let(5)
        # What is drawn later is drawn at once.
        await expect(page.locator(".math.drawn").first).to_be_visible()
        model.let_all()
        await desk.status(page, "finished")
        drawn = page.locator(".math.drawn")
        await expect(drawn.nth(3).locator(".katex-display")).to_be_visible()
        for n in range(3):
            heights: list[float] = await drawn.nth(n).evaluate(
                "(node) => [...node.querySelectorAll('.katex-html .vlist > span')].map((one) => "
                "one.getBoundingClientRect().top)"
            )
            assert len(set(heights)) > 1, "the parts of a fraction have places of their own"
            assert await drawn.nth(n).locator("math mfrac").count() == 1
        plain = page.locator(".math:not(.drawn)")
        await expect(plain).to_have_text([r"\frac{a", r"\unknown", r"\def\a{\a\a}\a"])
        answer = page.locator(".block.text .text")
        assert await answer.locator("a, img, script, .y").count() == 0
        rule = await drawn.last.evaluate("(node) => node.getBoundingClientRect().width")
        assert rule < 2_000
        fonts: list[str] = await page.evaluate(
            "document.fonts.ready.then((fonts) => [...fonts].filter((font) => font.status === 'loaded').map((font) => "
            "font.family))"
        )
        assert {"KaTeX_Main", "KaTeX_Fraktur", "KaTeX_AMS"} <= set(fonts)


LIBRARY = """
globalThis["mermaid"] = {
  initialize(options) { this.options = options; },
  async render(id, text) {
    if (text.includes("bad")) throw new Error("Parse error of <b>bad</b></script>");
    const { theme, securityLevel } = this.options;
    const style = "<style>text { font-size: 31px }</style>";
    const shown = `<text y="40">${theme} ${securityLevel}: ${text}</text>`;
    return { svg: `<svg id="${id}" height="321" style="border-top: 1px solid">${style}${shown}</svg>` };
  },
};
"""
"""What stands in for Mermaid.

That it is given with a setting, and drawn where it can do nothing, is the same for both.
"""
DIAGRAMS = "```mermaid\nA --> B\n```\n\n```mermaid\nbad\n```\n\n```python\nmermaid = 1\n```"
REAL = Path(__file__).parents[2] / "integration/page/node_modules/mermaid/dist/mermaid.min.js"


async def test_a_diagram_is_drawn_on_request_where_it_can_do_nothing(desk: Desk, tmp_path: Path) -> None:
    library = tmp_path / "mermaid.min.js"
    library.write_text(LIBRARY, encoding="utf-8")
    async with desk.asking(
        GatedModel([say(DIAGRAMS)], free=True), settings=Settings(mermaid=library), status="finished"
    ) as page:
        draw = page.get_by_role("button", name="Draw")
        await expect(draw).to_have_count(2)
        assert await page.locator("iframe").count() == 0, "nothing is loaded before that"
        code = page.locator("figure.code pre")
        await draw.first.press("Enter")
        await expect(code.first).to_be_hidden()
        shown = page.frame_locator("iframe.diagram")
        await expect(shown.locator("text")).to_have_text("default strict: A --> B\n")
        await expect(page.locator("iframe.diagram")).to_have_css("height", "346px")
        await expect(shown.locator("text")).to_have_css("font-size", "31px")
        frame = page.frames[1]
        assert await frame.evaluate("window.origin") == "null"
        refused = """async () => {
          const reads = [() => parent.document, () => localStorage];
          const tries = [...reads, () => fetch("/api/info"), () => import("/static/main.js")];
          const fails = async (act) => { try { await act(); return false; } catch { return true; } };
          return await Promise.all(tries.map(fails));
        }"""
        assert await frame.evaluate(refused) == [True] * 4
        desk.problems.clear()  # the browser reports what it refused
        # An error is shown above the code.
        await draw.last.click()
        await expect(page.locator("figure.code .reason")).to_have_text("Not drawn: Parse error of <b>bad</b></script>")
        await expect(code.nth(1)).to_be_visible()
        await expect(draw.last).to_have_attribute("aria-pressed", "false")
        # And the code again; the colours are those of the page.
        await draw.first.click()
        await expect(code.first).to_be_visible()
        await expect(page.locator("iframe")).to_have_count(0)
        await page.locator("#theme").click()
        await draw.first.click()
        await expect(shown.locator("text")).to_contain_text("dark strict")


FLAWED = """
globalThis["mermaid"] = { initialize() {}, async render(id, text) { return { svg: text }; } };
"""
"""A Mermaid that checks nothing: what a model writes is the picture."""
LEAKS = """
<img src="URL/img" srcset="URL/set" onerror="fetch('URL/error')"><svg><image href="URL/image"/></svg>
<script>fetch("URL/script")</script><iframe src="URL/frame" srcdoc="<img src=URL/doc>"></iframe>
<style>@import "URL/import"; body { background: url(URL/css) } \
@font-face { font-family: f; src: url(URL/font) } p { font-family: f }</style>
<link rel="stylesheet" href="URL/sheet"><object data="URL/object"></object>\
<embed src="URL/embed"><video poster="URL/poster"></video>
<form action="URL/form" target="_top"><button id="send">Send</button></form>
<a href="URL/self" id="self">self</a> <a href="URL/top" target="_top" id="top">top</a> \
<a href="URL/blank" target="_blank" id="blank">blank</a>
<p id="end">drawn</p>
"""


async def test_what_a_flawed_mermaid_lets_pass_reaches_no_server_and_leaves_the_page_as_it_is(
    desk: Desk, tmp_path: Path
) -> None:
    library, reached = tmp_path / "mermaid.min.js", list[str]()
    library.write_text(FLAWED, encoding="utf-8")

    async def reach(request: web.Request) -> web.Response:
        reached.append(request.path)
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", reach)
    async with TestServer(app, host="127.0.0.1") as thief:
        leaks = LEAKS.replace("URL", str(thief.make_url("")).rstrip("/"))
        text = f"```mermaid\n{leaks}\n```"
        async with desk.serve(GatedModel([say(text)], free=True), settings=Settings(mermaid=library)) as server:
            page = await desk.asked(status="finished")
            await page.get_by_role("button", name="Draw").click()
            for name in ("end", "send", "top", "blank", "self"):  # the last one empties the frame
                await page.frame_locator("iframe.diagram").locator(f"#{name}").click()
            await expect(page.frame_locator("iframe.diagram").locator("#end")).to_have_count(0)
            assert page.url.startswith(server.url)
            assert len(page.context.pages) == 1
            desk.problems.clear()  # the browser reports what it refused
    assert reached == []


async def test_without_the_library_a_diagram_stays_code(desk: Desk) -> None:
    async with desk.serve(GatedModel([say(DIAGRAMS)], free=True)) as server:
        page = await desk.asked(status="finished")
        await expect(page.locator("figure.code")).to_have_count(3)
        assert await page.get_by_role("button", name="Draw").count() == 0
        for name in ("diagram.html", "diagram.js"):
            response = await page.request.get(f"{server.url}static/{name}")
            assert response.status == 404


@pytest.mark.slow
async def test_mermaid_itself_draws_within_that_policy(desk: Desk) -> None:
    """The problems of the browser, which must be none, include what the policy of the frame refuses."""
    if not REAL.exists():
        missing = "mermaid is not installed: npm install --no-package-lock --prefix tests/integration/page"
        if os.environ.get("RXWORKER_REQUIRE_ALL") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    text = (
        '```mermaid\nflowchart LR\n A[Order] --> B{Paid?}\n click A "javascript:alert(1)"\n```\n\n```mermaid\nflowchart'
        " LR\n A --> --> [\n```"
    )
    async with desk.asking(
        GatedModel([say(text)], free=True), settings=Settings(mermaid=REAL), status="finished"
    ) as page:
        draw = page.get_by_role("button", name="Draw")
        await draw.first.click()
        shown = page.frame_locator("iframe.diagram")
        await expect(shown.locator(".node")).to_have_text(["Order", "Paid?"])
        hrefs: list[str] = await shown.locator("a").evaluate_all("(all) => all.map((a) => a.outerHTML.slice(0, 200))")
        assert not [one for one in hrefs if "javascript:" in one]
        await draw.last.click()
        await expect(page.locator("figure.code .reason")).to_contain_text("Parse error")
