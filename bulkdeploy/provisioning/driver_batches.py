"""Batches of driver calls: calls that arrive while others are being sent are sent together."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

import structlog

from bulkdeploy.drivers.batches import Answer, BatchDriver, GuestCall, host_name, make_call
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.processes.joined_requests import JoinedRequests, Unserved
from bulkdeploy.telemetry import metrics

log = structlog.get_logger(__name__)

PATIENCE_S = 0.05
"""How long a hypervisor that takes long to be told keeps the next batch waiting."""


class DriverBatches:
    """A sender of batches of calls to one driver, with at most one call per guest in a batch. It is thread-safe.

    Args:
        driver: the driver.
        timeout_s: the timeout of one call in seconds.
        patience_s: the seconds after which the next batch is sent although an earlier one has not ended, without
            the gathering time.
        gather: sleeps while calls are collected; gets the seconds (``BatchDriver.gathering_s``).
    """

    def __init__(
        self,
        driver: BatchDriver,
        timeout_s: float,
        patience_s: float = PATIENCE_S,
        gather: Callable[[float], object] = time.sleep,
    ) -> None:
        self._driver, self._timeout_s = driver, timeout_s
        self._requests: JoinedRequests[GuestCall, Answer] = JoinedRequests(
            self._begin,
            largest=driver.largest_batch,
            key=lambda call: call.guest_uuid,
            gather=partial(gather, driver.gathering_s) if driver.gathering_s else None,
            patience_s=patience_s + driver.gathering_s,
        )

    def waiting(self) -> int:
        """Return the number of calls that wait to be sent."""
        return self._requests.waiting

    def make(self, call: GuestCall) -> None:
        """Send one call as part of a batch, and wait until this call has ended.

        Raises:
            DriverError: this call failed. Other errors that the driver raised for the call are raised as well.
        """
        try:
            answer = self._requests.run(call)
        except Unserved:
            answer = self._alone(call)
        answer()

    def _begin(self, calls: Sequence[GuestCall]) -> Sequence[Answer]:
        """Send a batch and return one answer per call.

        If the driver fails unexpectedly for the whole batch, each call is repeated alone, so that only the faulty
        call fails.
        """
        metrics.DRIVER_BATCH.observe(len(calls))
        try:
            answers = self._driver.begin(calls, timeout_s=self._timeout_s)
        except DriverError as error:
            at = [error] if len(calls) == 1 else [error.at(host_name(call)) for call in calls]
            return [partial(_fail, each) for each in at]
        except Exception as error:
            if len(calls) == 1:
                return [partial(_fail, error)]
            log.exception("driver_defect", step="batch", calls=len(calls))
            return [self._alone(call) for call in calls]
        if len(answers) != len(calls):
            log.error("driver_defect", step="batch", calls=len(calls), answers=len(answers))
            return [self._alone(call) for call in calls]
        return answers

    def _alone(self, call: GuestCall) -> Answer:
        return partial(make_call, self._driver, call, self._timeout_s)


def _fail(error: Exception) -> NoReturn:
    raise error
