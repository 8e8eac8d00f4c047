from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from rxworker.hooks import CommandError, run_command
from rxworker.hooks.command import harmless_environment

PYTHON = sys.executable


async def test_a_command_runs_in_its_folder_and_gives_its_output_and_exit_code(tmp_path: Path) -> None:
    result = await run_command([PYTHON, "-c", "import os; print(os.getcwd())"], tmp_path)
    assert result.output.strip().endswith(tmp_path.name)
    assert (result.exit_code, result.ok, result.truncated) == (0, True, False)


async def test_an_exit_code_is_not_an_error_and_both_outputs_come_in_order(tmp_path: Path) -> None:
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
    result = await run_command([PYTHON, "-c", code], tmp_path)
    assert (result.output.split(), result.exit_code, result.ok) == (["out", "err"], 3, False)


async def test_a_text_is_split_into_words_and_given_to_no_shell(tmp_path: Path) -> None:
    result = await run_command("echo 'a  b' '$HOME' \"*\"", tmp_path)
    assert result.output == "a  b $HOME *\n"


SHELL = {
    'echo "\\$HOME"': "$",
    "echo hi; exit 3": ";",
    "echo hi;exit 3": ";",
    "pwd;": ";",
    "git status|wc": "|",
    "true&&echo a": "&",
    "sleep 1 &": "&",
    "echo a>b": ">",
    "cat <b": "<",
    "cat 2>&1": ">",
    "(cd a)": "(",
    "echo a\nexit 3": "\n",
    "echo $HOME": "$",
    'echo "${HOME}"': "$",
    "echo $(pwd)": "$",
    'echo "a `pwd`"': "`",
    "ls *.py": "*",
    "ls ?": "?",
    "ls ~/a": "~",
    "A=b pwd": "A=",
    "echo a # b": "#",
    "'a b' ; pwd": ";",
    "echo \\\\; pwd": ";",
    "echo \"a'b\" ; echo '\"'": ";",
}
PLAIN = {
    "echo 'a;b' \"c|d\" e\\;f": "a;b c|d e;f",
    "echo '$HOME `pwd`' \\$HOME": "$HOME `pwd` $HOME",
    "env A=b printenv A": "b",
    "echo HEAD~1 HEAD^ stash@{0} a#b --x=y 100% $ a[b] ! \\*": "HEAD~1 HEAD^ stash@{0} a#b --x=y 100% $ a[b] ! *",
    'echo "it\'s; fine"': "it's; fine",
}


@pytest.mark.parametrize("command", SHELL)
async def test_a_text_with_the_syntax_of_a_shell_is_refused(command: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError) as refused:
        await run_command(command, tmp_path)
    assert f"{SHELL[command]!r} means something to a shell only: give shell=True" in str(refused.value)
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240 - nothing was made


async def test_what_is_quoted_is_given_to_the_program(tmp_path: Path) -> None:
    for command, output in PLAIN.items():
        result = await run_command(command, tmp_path)
        assert result.output == f"{output}\n", command
        assert (await run_command(command, tmp_path, shell=True)).output == result.output, command


async def test_a_shell_is_used_on_request(tmp_path: Path) -> None:
    result = await run_command("echo a | tr a b && echo c > d; cat d", tmp_path, shell=True)
    assert result.output == "b\nc\n"


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("git status | wc", r"'\|' means something to a shell only: give shell=True"),
        ("", "the command is empty"),
        ([], "the command is empty"),
        ("echo 'a", "No closing quotation: echo 'a"),
        ("there_is_no_such_program --now", "could not be started: No such file"),
        (["echo", "a\0b"], "could not be started: embedded null byte"),
    ],
)
async def test_what_cannot_be_run_gives_the_reason(command: str | list[str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=complaint) as caught:
        await run_command(command, tmp_path)
    assert caught.value.command == command


async def test_a_shell_takes_a_text(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="a shell takes a text"):
        await run_command(["echo"], tmp_path, shell=True)


async def test_a_missing_workspace_is_reported_as_such(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="gone' is not a folder"):
        await run_command("echo", tmp_path / "gone")


async def test_a_word_between_quotes_passes_as_a_list(tmp_path: Path) -> None:
    assert (await run_command(["echo", "|"], tmp_path)).output == "|\n"


async def test_it_is_killed_when_its_time_is_over_and_what_it_wrote_is_kept(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"took longer than 1 s and was killed") as caught:
        await run_command("echo begun; sleep 60", tmp_path, shell=True, timeout=1)
    assert caught.value.output == "begun\n"


async def test_what_it_leaves_running_is_stopped_with_it(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await run_command("echo done; sleep 60 &", tmp_path, shell=True)
    assert (result.output, result.exit_code) == ("done\n", 0)
    assert loop.time() - began < 30


async def test_it_is_killed_when_the_task_is_cancelled(tmp_path: Path) -> None:
    command = "echo $$ > pid; sleep 60; echo late > late"
    task = asyncio.create_task(run_command(command, tmp_path, shell=True))
    pid = tmp_path / "pid"
    while not (pid.exists() and pid.read_text()):  # noqa: ASYNC110 - a file has no event
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (tmp_path / "late").exists()


async def test_its_output_is_kept_up_to_the_limit_and_read_to_its_end(tmp_path: Path) -> None:
    code = "print('x' * 1_000_000, end='')"
    result = await run_command([PYTHON, "-c", code], tmp_path, limit=1000)
    assert (len(result.output), result.truncated, result.exit_code) == (1000, True, 0)


async def test_output_that_is_not_text_is_kept_as_far_as_it_is(tmp_path: Path) -> None:
    code = r"import sys; sys.stdout.buffer.write(b'a\xffb')"
    assert (await run_command([PYTHON, "-c", code], tmp_path)).output == "a\ufffdb"


async def test_it_reads_nothing(tmp_path: Path) -> None:
    assert (await run_command("cat", tmp_path)).output == ""


async def test_it_does_not_see_the_keys_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hunter2")
    monkeypatch.setenv("GITHUB_TOKEN", "hunter2")
    monkeypatch.setenv("PLAIN", "here")
    seen = await run_command("env", tmp_path, env={"MINE_TOKEN": "given"})
    assert "hunter2" not in seen.output
    assert "PLAIN=here" in seen.output
    assert "MINE_TOKEN=given" in seen.output


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "GEMINI_APIKEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "HF_TOKEN",
        "DB_PASSWORD",
        "PGPASSWORD",
        "MYSQL_PWD",
        "GH_PAT",
        "SENTRY_DSN",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "ssh_private_key",
        "API_KEYS",
        "OPENAI_KEY_2",
        "OPENAIKEY",
        "AZURE_OPENAI_KEY1",
    ],
)
def test_a_name_that_sounds_like_a_secret_is_left_out(name: str) -> None:
    assert harmless_environment({name: "x"}) == {}


@pytest.mark.parametrize(
    "value",
    [
        "sk-ant-1",
        " sk-ant-1",
        "AIzaSy1",
        "AKIA1",
        "nvapi-1",
        "ghp_1",
        "hf_1",
        "Bearer 1",
        "postgres://ada:pw@host/db",
        "https://abcdefghijklmnopqrstuvwxyz@host/repository",
    ],
)
def test_a_value_that_looks_like_a_secret_is_left_out(value: str) -> None:
    assert harmless_environment({"PLAIN": value}) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/usr/bin"),
        ("PWD", "/work"),
        ("HOME", "/home/ada"),
        ("KEYBOARD", "de"),
        ("AUTHOR", "Ada"),
        ("PROXY", "http://host:80"),
        ("SSH_AUTH_SOCK", "/run/agent"),
    ],
)
def test_the_rest_stays(name: str, value: str) -> None:
    assert harmless_environment({name: value}) == {name: value}
