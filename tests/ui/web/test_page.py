"""The page's files, as they are served."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rxworker.ui.web.responses import INDEX, Page

if TYPE_CHECKING:
    from conftest import OpenDesk


async def test_the_page_is_there_and_a_browser_that_has_it_receives_a_304(
    open_desk: OpenDesk,
) -> None:
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


async def test_what_the_page_refers_to_is_there_and_nothing_is_inline(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    html = Page().files[INDEX].body.decode()
    names = re.findall(r'(?:src|href)="(?:\./)?([^"#:]+)"', html)
    assert any(name.endswith(".js") for name in names)
    for name in names:
        assert (await desk.get(name))[0] == 200, name
    assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>\s*\S", html)
    assert not re.search(r"<style|\sstyle=|\son\w+=", html)
    assert "//" not in "".join(names), "nothing comes from elsewhere"


def test_only_files_of_known_kinds_are_served() -> None:
    files = Page().files
    assert not [name for name in files if name.endswith((".py", ".pyc", ".map"))]
    assert all(not name.startswith((".", "/")) and ".." not in name for name in files)
