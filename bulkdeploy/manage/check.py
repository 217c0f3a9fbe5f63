"""``bulkdeploy check``: tests whether a hypervisor has everything that its driver needs."""

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from bulkdeploy.cloudstack.client import Access, Client
from bulkdeploy.drivers.extension.check import check_extension
from bulkdeploy.drivers.extension.options import ExtensionOptions
from bulkdeploy.drivers.incus.check import check_cluster
from bulkdeploy.drivers.incus.options import IncusOptions
from bulkdeploy.drivers.need import Need
from bulkdeploy.drivers.options import DriverSettingError, read_options
from bulkdeploy.manage.configuration import settings_of
from bulkdeploy.manage.importing import API_KEY, CA_FILE, PACE, SECRET_KEY, URL

LIBVIRT = "libvirt"
EXTENSION = "extension"
INCUS = "incus"


@click.group()
def check() -> None:
    """Test whether hypervisors have everything that their drivers need, before they become hosts."""


@check.command()
@click.option("--host", "url", required=True, help="The host as addHost is given it: qemu+ssh://root@kvm1/system.")
@click.option("--pool", "pool_path", help="Folder for volumes on the host; else driver.libvirt.local_path.")
@click.pass_context
def kvm(ctx: click.Context, url: str, pool_path: str | None) -> None:
    """Test a machine with libvirt, requirement by requirement; the last test boots a guest.

    Exit code 1 if a requirement is not met: its line describes the problem and the remedy.
    """
    settings = settings_of(ctx)
    try:
        from bulkdeploy.drivers.libvirt.check import check_host
        from bulkdeploy.drivers.libvirt.options import LibvirtOptions
    except ImportError as error:
        raise DriverSettingError(f"driver {LIBVIRT!r} cannot be used: {error}") from error
    options = read_options(LIBVIRT, LibvirtOptions, settings.driver.get(LIBVIRT, {}))
    _report(check_host(url, options, pool_path))


@check.command()
@click.pass_context
def incus(ctx: click.Context) -> None:
    """Test the cluster that the options of the driver incus name, requirement by requirement.

    Exit code 1 if a requirement is not met: its line describes the problem and the remedy.
    """
    _report(check_cluster(read_options(INCUS, IncusOptions, settings_of(ctx).driver.get(INCUS, {}))))


@check.command()
@click.argument("executable", type=click.Path(path_type=Path, resolve_path=True), required=False)
@click.option("--host", "url", required=True, help="The host as addHost is given it: extension://pve1?cores=..&..")
@click.option("--template", help="Name of the template whose details the guest gets; else those of default.")
@click.option("--seconds", default=300.0, show_default=True, help="How long an action may take.")
@click.pass_context
def extension(ctx: click.Context, executable: Path | None, url: str, template: str | None, seconds: float) -> None:
    """Run every action of an EXECUTABLE on a test guest, which is removed afterwards.

    The default is the setting driver.extension.executable. Exit code 1 if an action is wrong: its line describes
    the problem and the required behaviour.
    """
    given = dict(settings_of(ctx).driver.get(EXTENSION, {}))
    if executable is not None:
        given["executable"] = executable
    options = read_options(EXTENSION, ExtensionOptions, given)
    _report(check_extension(url, options, template, seconds))


@check.command()
@URL
@API_KEY
@SECRET_KEY
@CA_FILE
@PACE
def cloudstack(url: str, apikey: str, secretkey: str, ca_file: str | None, calls_per_second: float) -> None:
    """Test each call that an import of a CloudStack needs. Nothing is changed there.

    The calls of the driver are only looked up, not made. Exit code 1 if a requirement is not met: its line
    describes the problem.
    """
    from bulkdeploy.manage.upstream.checking import check_cloudstack

    client = Client(Access(url, apikey, secretkey, ca_file, calls_per_second))
    try:
        _report(check_cloudstack(client), to_the_end=True)
    finally:
        client.close()


def _report(needs: Iterable[Need], *, to_the_end: bool = False) -> None:
    """Print a line for each need up to the first missing one, or for all, then the remedies."""
    remedies: dict[str, None] = {}
    for need in needs:
        click.echo(f"{'ok     ' if need.remedy is None else 'missing'}  {need.name}: {need.found}")
        if need.remedy is not None:
            remedies[need.remedy] = None
            if not to_the_end:
                break
    for remedy in remedies:
        click.echo(f"         {remedy}")
    if remedies:
        sys.exit(1)
