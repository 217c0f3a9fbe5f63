"""Calls to many hosts at the same time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bulkdeploy.drivers.errors import DriverError

H = TypeVar("H")
T = TypeVar("T")

HOSTS_AT_ONCE = 16
"""Hosts that a driver reaches at the same time."""


def call_each(hosts: Sequence[H], call: Callable[[H], T]) -> list[T | DriverError]:
    """Return the result of a call for each of these hosts, HOSTS_AT_ONCE at a time, in their order.

    A failure does not stop the others.
    """

    def result(host: H) -> T | DriverError:
        try:
            return call(host)
        except DriverError as error:
            return error

    with ThreadPoolExecutor(HOSTS_AT_ONCE) as threads:
        return list(threads.map(result, hosts))
