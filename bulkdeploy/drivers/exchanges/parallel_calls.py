"""Calls to many hosts at the same time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bulkdeploy.drivers.errors import DriverError

H = TypeVar("H")
T = TypeVar("T")

HOSTS_AT_ONCE = 16
"""The number of hosts that a driver calls at the same time."""


def call_each(hosts: Sequence[H], call: Callable[[H], T]) -> list[T | DriverError]:
    """Call ``call`` for each host, HOSTS_AT_ONCE at a time, and return the results in the order of the hosts.

    If a call raises a DriverError, the error is returned as its result, and the other calls continue.
    """

    def result(host: H) -> T | DriverError:
        try:
            return call(host)
        except DriverError as error:
            return error

    with ThreadPoolExecutor(HOSTS_AT_ONCE) as threads:
        return list(threads.map(result, hosts))
