"""Each test runs without a log and with one."""

from tests.over_logs import log_of_runs, pytest_generate_tests, sqlite_log

__all__ = ["log_of_runs", "pytest_generate_tests", "sqlite_log"]
