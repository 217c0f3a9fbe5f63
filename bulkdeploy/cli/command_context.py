"""The options, the connection and the screen of one command."""

import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bulkdeploy.cli.command_line import Options
from bulkdeploy.cli.connection import config_file
from bulkdeploy.cli.connection.catalogue import Catalogue
from bulkdeploy.cli.connection.clock import Clock
from bulkdeploy.cli.connection.profiles import Connection, Preferences
from bulkdeploy.cli.output.screen import Screen
from bulkdeploy.cli.workspace import Workspace

if TYPE_CHECKING:
    from bulkdeploy.cli.connection.transport import Transport
    from bulkdeploy.cli.deployments.followed import FollowedBatches
    from bulkdeploy.cli.deployments.following import Follower
    from bulkdeploy.cli.deployments.watching import Watch


class CommandContext:
    """The context of one command. Its members are created at their first use."""

    def __init__(self, workspace: Workspace, options: Options, screen: Screen) -> None:
        self.workspace, self.options, self.screen = workspace, options, screen

    @cached_property
    def preferences(self) -> Preferences:
        """The preferences of the command."""
        return self.workspace.preferences(self.options)

    @cached_property
    def connection(self) -> Connection:
        """The connection to the API, with the caller's credentials."""
        return self.workspace.connection(self.options)

    @cached_property
    def transport(self) -> "Transport":
        """The HTTP connection to the API."""
        return self.workspace.transport(self.connection)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The catalogue of all commands of the API."""
        return self.workspace.catalogue(self.connection, self.screen.print_message)

    @property
    def clock(self) -> Clock:
        """The clock for measuring and waiting."""
        return self.workspace.clock

    @cached_property
    def follower(self) -> "Follower":
        """The follower that waits for jobs."""
        from bulkdeploy.cli.deployments.following import Follower  # noqa: PLC0415 - only who waits needs it

        return Follower(self.call_once, self.clock, self.screen, self.preferences.timeout, self.program)

    @property
    def program(self) -> str:
        """The command line that calls bulkmonkey with the same profile."""
        options = {"-c": self.options.config, "-p": self.options.profile}
        given = (word for name, value in options.items() if value for word in (name, shlex.quote(value)))
        return " ".join(("bulkmonkey", *given))

    def call(self, command: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        """Call a command of the API and return its response.

        Calls that only read are retried after temporary failures.
        """
        return self.transport.call(command, parameters)

    def call_once(self, command: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        """Call the API with exactly one request, without retries."""
        return self.transport.call(command, parameters, attempts=1)

    @property
    def batches(self) -> "FollowedBatches":
        """The store of job ids of batches, for APIs that have no deployments."""
        from bulkdeploy.cli.deployments.followed import FollowedBatches  # noqa: PLC0415 - only who waits needs it

        return FollowedBatches(config_file.state_directory())

    def watch(self, job_ids: Sequence[str], deployment_id: str = "") -> "Watch":
        """Return the object that watches the jobs of a batch.

        It reads the deployment if the API has deployments, else the single jobs.
        """
        from bulkdeploy.cli.deployments.watching import (  # noqa: PLC0415 - only who waits needs it
            ONE_BY_ONE,
            Budget,
            DeploymentWatch,
            JobListWatch,
        )

        budget = Budget(self.clock)
        if deployment_id and self.catalogue.get("listBulkDeployments") is not None:
            return DeploymentWatch(self.call_once, budget, deployment_id, job_ids)
        listed = self.catalogue.get("listAsyncJobs") is not None and len(job_ids) > ONE_BY_ONE
        name = self.batches.keep(job_ids)
        return JobListWatch(self.call_once, budget, job_ids, listed=listed, name=name)
