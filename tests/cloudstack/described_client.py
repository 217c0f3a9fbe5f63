"""A client that makes no call that the oldest CloudStack would refuse."""

from collections.abc import Mapping

from bulkdeploy.cloudstack.client import TIMEOUT_S, Client, Row
from tests.support.cloudstack.apis import why_refused

OLDEST = "4.18"


class DescribedClient(Client):
    """Each call is held to CloudStack's own description of it before it is made."""

    def call(
        self, command: str, parameters: Mapping[str, str] | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> Row:
        """See Client."""
        assert why_refused(command, parameters or {}, OLDEST) is None
        return super().call(command, parameters, timeout_s=timeout_s)
