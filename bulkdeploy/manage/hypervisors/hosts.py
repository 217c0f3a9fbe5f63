"""``bulkdeploy hosts``: writes the declared files to all hosts, so that they are equal everywhere."""

import json
import sys

import click

from bulkdeploy.manage.installation import installation

EQUAL, FAILED, PUSHED = 0, 1, 3
"""Exit codes."""


@click.group()
def hosts() -> None:
    """Manage the files that the service writes to all hosts."""


@hosts.command()
@click.option("--host", help="Only to this host (name or id).")
@click.option("--dry-run", is_flag=True, help="Compare checksums and modes; put nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for scripts.")
@click.pass_context
def push(ctx: click.Context, host: str | None, dry_run: bool, as_json: bool) -> None:
    """Write the files of the setting host_files to all hosts on which they are missing or different.

    Hosts whose drivers do not support files are skipped. A new host gets the files automatically. Exit code 0: all
    files were equal, 3: files were written (dry run: would be written), 1: some hosts failed.
    """
    from bulkdeploy.drivers.hosts import address_of
    from bulkdeploy.services.infrastructure.host_files import push as push_files
    from bulkdeploy.wiring.host_files import read_host_files

    with installation(ctx, "bulkdeploy hosts") as installed:
        files = read_host_files(installed.settings)
        rows = installed.hosts(host)
        addresses = [address_of(row) for row in rows]
        pushed = push_files(installed.drivers, addresses, files, dry_run=dry_run, timeout_s=installed.timeout_s)
    if as_json:
        found = [{"host": one.host.name, "files": list(one.paths), "problem": one.problem} for one in pushed]
        click.echo(json.dumps({"hosts": found, "leftout": len(rows) - len(pushed)}))
    else:
        for one in pushed:
            if one.problem is not None:
                click.echo(f"FAILED  {one.host.name}: {one.problem}")
            elif one.paths:
                click.echo(f"{'differs' if dry_run else 'pushed '} {one.host.name}: {', '.join(one.paths)}")
        equal = sum(one.problem is None and not (dry_run and one.paths) for one in pushed)
        left_out = len(rows) - len(pushed)
        what = "their drivers take none" if files else "host_files declares none"
        click.echo(
            f"{equal} hosts have all files; {left_out or 'none'} left out" + (f": {what}" if left_out else "")
        )
    if any(one.problem is not None for one in pushed):
        sys.exit(FAILED)
    sys.exit(PUSHED if any(one.paths for one in pushed) else EQUAL)
