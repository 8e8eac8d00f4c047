"""What the client of the shared harness imports from `rxworker`, where it was when the harness was written."""

import rxworker
from rxworker.transport import Client

rxworker.Client = Client  # pyright: ignore[reportAttributeAccessIssue] - for the harness alone
