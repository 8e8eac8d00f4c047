"""The ``rxworker`` command."""

# Before all others: it handles Ctrl-C while they are imported.
from rxworker.cli import startup as startup
from rxworker.cli.main import main

__all__ = ["main"]
