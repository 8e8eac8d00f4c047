"""The recorded responses, as a parameter of the tests that ask for one."""

from tests.over_recordings import pytest_generate_tests

__all__ = ["pytest_generate_tests"]
