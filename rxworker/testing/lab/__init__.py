"""Stored runs as tests: they run again against a candidate, with the model and the tools from the log."""

from rxworker.testing.lab.rerun import Difference, LabRun, Outcome, rerun, rerun_stored, stored_runs

__all__ = ["Difference", "Outcome", "LabRun", "rerun", "rerun_stored", "stored_runs"]
