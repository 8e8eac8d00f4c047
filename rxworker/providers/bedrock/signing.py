"""Requests signed with AWS credentials (SigV4), by botocore.

Profiles, roles, containers and machines, as every program of AWS finds them.

botocore is the extra ``bedrock``; it is imported when a request is signed first. It reads files and may call AWS for
the credentials of a role, so it belongs into a thread.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.providers.base import HttpRequest

SERVICE = "bedrock"
MISSING = (
    "no key for Bedrock, and botocore, which finds AWS credentials, is not installed: set AWS_BEARER_TOKEN_BEDROCK, or "
    "pip install '/path/to/the/checkout[bedrock]'"
)


class Signer:
    """Signs requests with the credentials of a profile.

    Args:
        profile: Its name; ``None``: as AWS's tools choose it.
    """

    def __init__(self, profile: str | None) -> None:
        self._profile = profile
        self._session: Any = None  # botocore has no types

    def region(self) -> str | None:
        """The region of the profile, if it has one."""
        try:
            return self._open().get_config_variable("region")
        except ConfigurationError:
            return None

    def sign(self, request: HttpRequest, region: str) -> HttpRequest:
        """The request with its signature.

        Raises:
            ConfigurationError: botocore is not installed, or there are no credentials, or AWS refuses them.
        """
        session = self._open()
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError

        new_auth: Any = SigV4Auth
        try:
            credentials = session.get_credentials()
            if credentials is None:
                raise ConfigurationError(
                    "no AWS credentials: set AWS_BEARER_TOKEN_BEDROCK, or configure them as for the AWS command line "
                    "(aws configure)"
                )
            signed: Any = AWSRequest("POST", request.url, dict(request.headers), request.body)
            new_auth(credentials.get_frozen_credentials(), SERVICE, region).add_auth(signed)
        except (BotoCoreError, ClientError) as error:  # of a file, and of the service for roles
            raise ConfigurationError(f"the AWS credentials cannot be used: {error}") from error
        return replace(request, headers={k.lower(): v for k, v in signed.headers.items()})

    def _open(self) -> Any:
        if self._session is None:
            try:
                from botocore.exceptions import ProfileNotFound
                from botocore.session import Session
            except ImportError as error:
                raise ConfigurationError(MISSING) from error
            try:
                self._session = Session(profile=self._profile)
                self._session.get_scoped_config()
            except ProfileNotFound as error:
                self._session = None
                raise ConfigurationError(f"{error}: give one of ~/.aws/config as profile=...") from error
        return self._session
