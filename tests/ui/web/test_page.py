"""The page's files, as they are served."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from rxworker.errors import ConfigurationError
from rxworker.ui.web.http.responses import BOARDS, CONTENT_SECURITY_POLICY, FLEET, INDEX, Page

from .conftest import OpenDesk


async def test_the_page_is_there_and_a_browser_that_has_it_receives_a_304(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    for path in ("", "static/main.js"):
        async with desk.http.get(desk.url(path)) as response:
            assert response.status == 200
            assert response.headers["Cache-Control"] == "no-cache"
            etag = response.headers["ETag"]
        for known in (etag, f'"other", {etag}', f"W/{etag}"):
            status, body = await desk.get(path, headers={"If-None-Match": known})
            assert (status, body) == (304, "")
        assert (await desk.get(path, headers={"If-None-Match": '"other"'}))[0] == 200


async def test_a_head_answers_as_a_get_would(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    async with desk.http.head(desk.url("static/main.js")) as response:
        assert response.status == 200
        assert response.content_type == "text/javascript"
        assert await response.read() == b""


@pytest.mark.parametrize("page", [INDEX, FLEET, BOARDS])
async def test_what_the_page_refers_to_is_there_and_nothing_is_inline(open_desk: OpenDesk, page: str) -> None:
    desk = await open_desk()
    html = Page().files[page].body.decode()
    names = re.findall(r'(?:src|href)="(?:\./)?([^"#:]+)"', html)
    assert any(name.endswith(".js") for name in names)
    for name in names:
        assert name.startswith("../") == (page == BOARDS), "which is a level below the others"
        assert (await desk.get(name.removeprefix("../")))[0] == 200, name
    assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>\s*\S", html)
    assert not re.search(r"<style|\sstyle=|\son\w+=", html)
    assert "//" not in "".join(names), "nothing comes from elsewhere"


async def test_the_page_of_dashboards_is_that_of_the_first_one_with_the_parameters_of_the_address(
    open_desk: OpenDesk,
) -> None:
    desk = await open_desk()
    async with desk.http.get(desk.url("boards?last=900&label=a%3Db"), allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (302, "./boards/usage?last=900&label=a%3Db")
    for path in ("boards", "boards/usage", "boards/no"):  # the page lists those that there are
        status, text = await desk.get(path)
        assert status == 200
        assert 'src="../static/boards.js"' in text


def test_only_files_of_known_kinds_are_served() -> None:
    files = Page().files
    assert not [name for name in files if name.endswith((".py", ".pyc", ".map"))]
    assert all(not name.startswith((".", "/")) and ".." not in name for name in files)


def test_the_page_has_frames_only_with_mermaid_and_a_diagram_loads_nothing(tmp_path: Path) -> None:
    library = tmp_path / "mermaid.min.js"
    library.write_text('globalThis["mermaid"] = "</script><!--"', encoding="utf-8")
    plain, drawing = Page().files, Page(library).files
    assert plain[INDEX].headers == {}
    assert drawing[INDEX].headers["Content-Security-Policy"] == f"{CONTENT_SECURITY_POLICY}; frame-src 'self'"
    assert b"<html data-diagrams " in drawing[INDEX].body
    assert set(drawing) - set(plain) == {"diagram.html"}
    scripts = re.findall(r"<script>(.*?)</script>", drawing["diagram.html"].body.decode(), re.DOTALL)
    assert scripts[0] == r'globalThis["mermaid"] = "<\/script><\!--"'
    policy = drawing["diagram.html"].headers["Content-Security-Policy"]
    digests = [b64encode(sha256(one.encode()).digest()).decode() for one in scripts]
    assert f"script-src 'sha256-{digests[0]}' 'sha256-{digests[1]}';" in policy
    assert policy.startswith("sandbox allow-scripts; default-src 'none';")


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "No such file"), (b"\xff", "decode"), (b"export default mermaid;", "dist/mermaid.min.js")],
)
def test_another_file_than_that_of_mermaid_is_refused(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "mermaid.min.js"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=problem):
        Page(path)
