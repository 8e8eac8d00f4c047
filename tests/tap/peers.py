"""The libraries whose streams are tapped, each in an environment of its own, which the first test that needs it makes.

    python -m tests.tap.peers                      makes or upgrades all environments
    python -m tests.tap.peers agno                 one of them
    python -m tests.tap.peers --record agno        and writes what its program reports into recorded/agno.jsonl

The environments lie in the cache of this user, and are those of `examples/compare`, with what rxworker needs.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_comparison import ROOT, command

RECORDED = Path(__file__).with_name("recorded")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
FOLDER = CACHE / "rxworker-peers" / f"{sys.version_info.major}.{sys.version_info.minor}"
PEERS = {
    **{name: command.PEERS[name] for name in ("ag2", "agno", "langgraph", "openai_agents", "pydantic_ai", "strands")},
    "claude_agent": command.Peer("Claude Agent SDK", ("claude-agent-sdk",), ("claude-agent-sdk",)),
}
SERVERS = {
    "ag_ui": command.Peer(
        "AG-UI of pydantic-ai",
        ("pydantic-ai-slim[ag-ui]", "uvicorn", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"),
        ("pydantic-ai-slim", "ag-ui-protocol"),
    )
}
"""Those that are tapped by address."""
PATIENCE = 600
"""How many seconds the installation of one may take."""


def python_of(name: str) -> Path:
    """The Python of the environment of a library; the test is skipped where it cannot be made."""
    if not (FOLDER / name / "ready").exists():
        # The tests have a certificate of their own, which is not that of the index.
        own = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
        install = [sys.executable, "-m", "tests.tap.peers", name]
        done = subprocess.run(install, cwd=ROOT, env=own, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode:
            pytest.skip(f"{name} cannot be installed: {(done.stderr.strip() or '?').splitlines()[-1]}")
    return FOLDER / name / "bin" / "python"


def make(name: str) -> Path:
    """Make or upgrade the environment of a library."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    peer = {**PEERS, **SERVERS}[name]
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the tests of several processes may need it
        python: Path = command.environment(FOLDER, name, peer._replace(installs=(*peer.installs, *needed)))
        (FOLDER / name / "ready").write_text(command.versions(python, peer), encoding="utf-8")
    return python


def report(name: str, python: Path) -> list[dict[str, Any]]:
    """What the program of a library reports: its cases."""
    program = [python, "-W", "ignore", "-m", f"tests.tap.with_{name}"]
    own = {**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    done = subprocess.run(program, cwd=ROOT, env=own, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"with_{name}.py has failed:\n{done.stdout[-1000:]}\n{done.stderr[-4000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]


def main() -> None:
    """Make the environments, and the recordings if they are wanted."""
    parser = argparse.ArgumentParser(description="Make the environments of the libraries whose streams are tapped.")
    parser.add_argument("names", nargs="*", default=[*PEERS, *SERVERS], help=f"of {', '.join(PEERS)}")
    parser.add_argument("--record", action="store_true", help="write what their programs report")
    arguments = parser.parse_args()
    for name in arguments.names:
        python = make(name)
        if arguments.record:
            lines = [json.dumps(each, separators=(",", ":")) for each in report(name, python)]
            (RECORDED / f"{name}.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
