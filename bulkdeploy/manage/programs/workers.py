"""``bulkdeploy worker`` and ``bulkdeploy sweeper``: replace this process by the worker or the sweeper."""

import os
from typing import NoReturn

import click

from bulkdeploy.manage.configuration import service_settings
from bulkdeploy.manage.programs.programs import SWEEPER, WORKER, command_line, environment
from bulkdeploy.wiring.settings import Settings


@click.command()
@click.pass_context
def worker(ctx: click.Context) -> None:
    """Run jobs: one process with worker_threads threads. Run as many as you like, on any machine."""
    become(WORKER, _settings(ctx))


@click.command()
@click.pass_context
def sweeper(ctx: click.Context) -> None:
    """Send unsent jobs, recover abandoned jobs, and delete expired data.

    One sweeper is enough; several are safe.
    """
    become(SWEEPER, _settings(ctx))


def become(program: tuple[str, ...], settings: Settings) -> NoReturn:
    """Replace this process by ``program``. This function does not return."""
    line = command_line(program)
    os.execve(line[0], line, environment(settings, dict(os.environ)))  # noqa: S606 - our own interpreter


def _settings(ctx: click.Context) -> Settings:
    return service_settings(ctx, "database_url", "redis_url")
