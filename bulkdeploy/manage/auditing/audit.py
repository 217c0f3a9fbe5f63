"""``bulkdeploy audit``: checks the invariants of the database and compares it with the hypervisors."""

import json
import sys
from typing import TYPE_CHECKING

import click

from bulkdeploy.manage.configuration import service_settings
from bulkdeploy.wiring.settings import Settings

if TYPE_CHECKING:
    from bulkdeploy.store.auditing.audit import Finding


BROKEN, UNKNOWN = 1, 3
"""Exit codes."""


@click.command("audit")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for scripts.")
@click.option("--explain", "host", metavar="HOST", help="Check nothing: say who holds what of a host (name or id).")
@click.pass_context
def audit(ctx: click.Context, as_json: bool, host: str | None) -> None:
    """Check every invariant, and compare the rows with the guests and volumes of the hypervisors.

    The command is safe while the service runs. Exit code 1: there are discrepancies. Exit code 3: there are no
    discrepancies, but the VMs and volumes of hosts that do not respond are listed as unknown.
    """
    settings = service_settings(ctx, "database_url")
    if host is not None:
        explain(settings, host, as_json=as_json)
        return
    findings = check(settings)
    if as_json:
        found = [
            {
                "name": one.name,
                "promise": one.promise,
                "compared": one.compared,
                "breaches": list(one.breaches),
                "unknown": list(one.unknown),
            }
            for one in findings
        ]
        intact = not any(one.breaches or one.unknown for one in findings)
        click.echo(json.dumps({"intact": intact, "findings": found}))
    else:
        for one in findings:
            click.echo(f"{'BROKEN' if one.breaches else 'true  '}  {one.promise} ({one.compared} checked)")
            for breach in one.breaches:
                click.echo(f"        {breach}")
            for unknown in one.unknown:
                click.echo(f"UNKNOWN {unknown}")
    if any(one.breaches for one in findings):
        sys.exit(BROKEN)
    if any(one.unknown for one in findings):
        sys.exit(UNKNOWN)


def explain(settings: Settings, host: str, *, as_json: bool) -> None:
    """Print the claims on each host with this name or id, and the VMs that own them.

    Raises:
        UsageError: no host has this name or id.
    """
    from bulkdeploy.store.database.engine import read_only
    from bulkdeploy.store.ledger.allocations import allocations_of_host, find_hosts
    from bulkdeploy.wiring.system import build_engine

    engine = build_engine(settings, application_name="bulkdeploy audit")
    try:
        with read_only(engine) as connection:
            found = find_hosts(connection, host)
            held = [allocations_of_host(connection, one["id"]) for one in found]
    finally:
        engine.dispose()
    if not found:
        raise click.UsageError(f"there is no host {host!r}: HOST must be the name or the id of a host")
    if as_json:
        rows = [{**one, "allocations": all_of_it} for one, all_of_it in zip(found, held, strict=True)]
        click.echo(json.dumps({"hosts": rows}, default=str))
        return
    for one, all_of_it in zip(found, held, strict=True):
        click.echo(
            f"host {one['name']} ({one['uuid']}) of cluster {one['cluster']}: "
            f"{one['cpu_mhz_used']} of {one['cpu_mhz_limit']} MHz, "
            f"{one['memory_mib_used']} of {one['memory_mib_limit']} MiB, "
            f"{one['vms_used']} of {one['vms_limit']} VMs"
        )
        for row in all_of_it:
            amounts = f"{row['size']} bytes of {row['storage']}"
            if row["size"] is None:
                amounts = f"{row['cpu']} MHz, {row['memory']} MiB"
            name = row["consumername"] or "unknown"
            click.echo(
                f"        {row['consumertype']} {name} ({row['consumerid']}): {amounts}"
                f" since {row['created']:%Y-%m-%d %H:%M:%S%z}"
            )


def check(settings: Settings) -> "list[Finding]":
    """Check every invariant on the configured database and its hypervisors. getHealth shows the findings.

    Raises:
        DriverSettingError: the settings of drivers are wrong, or contain no driver for some hosts, so that their
            guests are unknown.
    """
    from bulkdeploy.drivers.hosts import address_of
    from bulkdeploy.services.auditing.audit import audit as check_all
    from bulkdeploy.services.infrastructure.host_files import audit_files
    from bulkdeploy.store.auditing.audit import hypervisors_of_hosts, record_audit
    from bulkdeploy.store.database.engine import read_only
    from bulkdeploy.store.hypervisors.directory import hosts as all_hosts
    from bulkdeploy.wiring.drivers import build_configured_drivers
    from bulkdeploy.wiring.host_files import read_host_files
    from bulkdeploy.wiring.system import build_engine

    engine = build_engine(settings, application_name="bulkdeploy audit")
    drivers = build_configured_drivers(settings, engine)
    try:
        with read_only(engine) as connection:
            for hypervisor in hypervisors_of_hosts(connection):
                drivers.configured_for(hypervisor)
        findings = check_all(engine, drivers)
        if files := read_host_files(settings):
            with read_only(engine) as connection:
                hosts = [address_of(row) for row in all_hosts(connection)]
            findings.append(audit_files(drivers, hosts, files, timeout_s=settings.driver_timeout_seconds))
        with engine.begin() as connection:
            record_audit(connection, findings)
        return findings
    finally:
        drivers.close()
        engine.dispose()
