"""The errors of requests that are rejected before they are read completely.

The client gets a normal error response, and then the connection is closed.
"""

from bulkdeploy.domain.errors import BulkDeployError


class MalformedRequest(BulkDeployError):
    """Raised when a request is not HTTP/1 (400)."""

    def __init__(self) -> None:
        super().__init__("The request is not valid HTTP/1.1")


class RequestLineTooLong(BulkDeployError):
    """Raised when the URL of a request is too long (414)."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        super().__init__(
            f"The URL is too long: at most {most_bytes} bytes are accepted; send the parameters as a form by POST"
        )


class HeadersTooLarge(BulkDeployError):
    """Raised when a request has too many or too long headers (431, as in RFC 6585)."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most, self.most_bytes = most, most_bytes
        super().__init__(f"The headers are too large: at most {most} with {most_bytes} bytes in all are accepted")


class RequestTooSlow(BulkDeployError):
    """Raised when headers or body of a request did not arrive within the timeout (408)."""

    def __init__(self, what: str, seconds: float) -> None:
        self.what, self.seconds = what, seconds
        super().__init__(f"The {what} of the request did not arrive within {seconds:g} s")


class ServerBusy(BulkDeployError):
    """Raised when the process already handles the maximum number of requests (503)."""

    def __init__(self) -> None:
        super().__init__("The server processes as many requests as it may; try again later")
