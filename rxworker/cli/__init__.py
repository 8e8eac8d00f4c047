"""The ``rxworker`` command."""

from rxworker.cli.main import main

__all__ = ["main"]
