"""HTTP requests to the servers of a cluster.

Servers are tried one after another, beginning with the server that answered last.
"""

import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from typing_extensions import override
from urllib3.exceptions import NewConnectionError
from urllib3.util import create_urllib3_context

CONNECT_S = 10.0
CONNECTIONS = 32
"""The number of connections that are kept open to one server."""

SILENT = (429, 502, 503, 504)
"""The HTTP statuses of a server that is too busy or does not serve the cluster now, so the next one is tried."""

MOST_TEXT = 500
"""The number of characters of a cluster's response that operators are shown. Some responses are long."""

REASON_CHARACTERS = 200


class NotAnswered(Exception):
    """Raised if no server answered. A server may have executed the request nevertheless."""


class NobodyServes(NotAnswered):
    """Raised when every server refused the connection, for example during a takeover. No request was sent."""


class OneContext(HTTPAdapter):
    """An HTTPS adapter that uses one TLS context for all connections.

    Loading the certificate authorities takes more CPU time than a handshake.

    Args:
        fingerprint: the SHA-256 of the only certificate that is accepted. None: an authority must have signed the
            certificate.
        ca_file: certificates of the authorities. None: the authorities that ``requests`` contains.
    """

    def __init__(self, fingerprint: str | None, ca_file: str | None) -> None:
        self._fingerprint = fingerprint
        if fingerprint is None:
            self._context = ssl.create_default_context(cafile=ca_file or DEFAULT_CA_BUNDLE_PATH)
        else:
            self._context = create_urllib3_context(cert_reqs=ssl.CERT_NONE)
        super().__init__(pool_connections=CONNECTIONS, pool_maxsize=CONNECTIONS)

    @override
    def init_poolmanager(self, *arguments: Any, **more: Any) -> None:
        if self._fingerprint is not None:
            more["assert_fingerprint"] = self._fingerprint
        super().init_poolmanager(*arguments, ssl_context=self._context, **more)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Set the certificate options of a connection. The authorities are already in the shared TLS context."""
        del url
        conn.cert_reqs = "CERT_REQUIRED" if verify else "CERT_NONE"
        if cert:
            conn.cert_file, conn.key_file = cert


class ClusterHttp:
    """An HTTP client for the servers of one cluster.

    Threads may share the object.

    Args:
        urls: the URLs of all servers that may answer.
        fingerprint: the SHA-256 of the cluster's certificate, which then needs no authority.
        ca_file: certificates of the authorities that signed the servers' certificates. None: the authorities that
            ``requests`` contains.
        is_silent: returns True for a response of a server that does not serve the cluster now, in addition to the
            statuses in SILENT.

    Attributes:
        session: the session of all requests. Its owner adds credentials and adapters.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        fingerprint: str | None,
        ca_file: str | None,
        is_silent: Callable[[requests.Response], bool] = lambda _: False,
    ) -> None:
        self._urls = list(urls)
        self._is_silent = is_silent
        self.session = requests.Session()
        self.session.trust_env = False  # proxies in the environment are not meant for the cluster
        self.session.verify = fingerprint is None
        self.session.mount("https://", OneContext(fingerprint, ca_file))
        self.session.mount("http://", HTTPAdapter(pool_connections=CONNECTIONS, pool_maxsize=CONNECTIONS))

    def send(
        self, method: str, path: str, *, timeout_s: float, is_repeatable: bool = True, **content: Any
    ) -> requests.Response:
        """Send one request and return the response, whatever its status is.

        If a server does not answer and the request is repeatable, the next server is tried.

        Args:
            method: the HTTP method.
            path: the path of the resource.
            timeout_s: the time for all servers together, in seconds.
            is_repeatable: False if the content can be read only once. Then only one server is tried.
            content: further arguments for ``requests``, such as ``json``.

        Raises:
            NotAnswered: no server answered in time.
            NobodyServes: every server refused the connection.
        """
        reasons, refused = [], 0
        end = time.monotonic() + timeout_s
        for url in list(self._urls) if is_repeatable else self._urls[:1]:
            left = max(end - time.monotonic(), 0.1)
            try:
                answer = self.session.request(
                    method, f"{url}{path}", timeout=(min(left, CONNECT_S), left), **content
                )
            except (requests.RequestException, OSError) as error:
                reasons.append(f"{url}: {error}")
                refused += _is_refused(error)
                continue
            if answer.status_code in SILENT or self._is_silent(answer):
                reasons.append(f"{url}: {answer.status_code} {answer.text[:REASON_CHARACTERS]}")
                continue
            self._prefer(url)
            return answer
        raise (NobodyServes if refused == len(reasons) else NotAnswered)("; ".join(reasons))

    def close(self) -> None:
        """Close all connections."""
        self.session.close()

    def _prefer(self, url: str) -> None:
        if self._urls[0] != url:
            self._urls = [url, *(other for other in self._urls if other != url)]


def _is_refused(error: Exception) -> bool:
    """Return whether no connection was established, so that no request was sent."""
    return isinstance(getattr(error.args[0] if error.args else None, "reason", None), NewConnectionError)


def shown(text: str) -> str:
    """Return the text of a cluster's response, cut to MOST_TEXT characters."""
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}..."
