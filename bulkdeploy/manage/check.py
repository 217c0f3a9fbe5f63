"""``bulkdeploy check``: does a machine have what a host needs?"""

import sys

import click

from bulkdeploy.drivers.options import DriverSettingError, read_options
from bulkdeploy.manage.configuration import settings_of

LIBVIRT = "libvirt"


@click.group()
def check() -> None:
    """Try what hypervisors need, before they become hosts."""


@check.command()
@click.option("--host", "url", required=True, help="The host as addHost is given it: qemu+ssh://root@kvm1/system.")
@click.option("--pool", "pool_path", help="Folder for volumes on the host; else driver.libvirt.local_path.")
@click.pass_context
def kvm(ctx: click.Context, url: str, pool_path: str | None) -> None:
    """Try a machine with libvirt, need by need; the last is a guest that boots.

    Exit code 1 where something is missing: the line says what, and how to mend it.
    """
    settings = settings_of(ctx)
    try:
        from bulkdeploy.drivers.libvirt_check import check_host
        from bulkdeploy.drivers.libvirt_options import LibvirtOptions
    except ImportError as error:
        raise DriverSettingError(f"driver {LIBVIRT!r} can not be used: {error}") from error
    options = read_options(LIBVIRT, LibvirtOptions, settings.driver.get(LIBVIRT, {}))
    for need in check_host(url, options, pool_path):
        click.echo(f"{'ok     ' if need.remedy is None else 'missing'}  {need.name}: {need.found}")
        if need.remedy is not None:
            click.echo(f"         {need.remedy}")
            sys.exit(1)
