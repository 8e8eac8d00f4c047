from rxworker.cli.process import explain
from rxworker.errors import ConfigurationError


def test_errors_of_ours_speak_of_options() -> None:
    error = ConfigurationError("no API key: set the environment variable K, or pass api_key=...")
    assert explain(error) == "no API key: set the environment variable K, or name another with --api-key-env"


def test_other_errors_name_their_type() -> None:
    assert explain(KeyError()) == "KeyError"
    assert explain(ValueError("two\nlines \x1b[0m")) == "ValueError: two lines ␛[0m"
