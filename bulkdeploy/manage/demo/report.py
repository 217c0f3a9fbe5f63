"""``bulkdeploy report``: draws the distribution of a bulk deployment's VMs over clusters."""

from pathlib import Path

import click

from bulkdeploy.manage.configuration import settings_of
from bulkdeploy.manage.running import with_running_services


@click.command()
@click.argument("deployment_id", required=False)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("spread.svg"),
    show_default=True,
    help="The SVG file to write.",
)
@click.pass_context
def report(ctx: click.Context, deployment_id: str | None, output: Path) -> None:
    """Draw VMs per cluster, before and after DEPLOYMENT_ID (or the newest bulk deployment)."""
    from bulkdeploy.cli.deployments.spread import read_spread
    from bulkdeploy.manage.demo.own_api import list_all, own_api
    from bulkdeploy.manage.demo.picture import draw_spread

    wanted = {"listall": "true"} if deployment_id is None else {"listall": "true", "id": deployment_id}
    with own_api(with_running_services(settings_of(ctx))) as api:
        found = list_all(api, "listBulkDeployments", "bulkdeployment", **wanted)
    if not found:
        raise click.ClickException("There is no bulk deployment yet")
    newest = max(found, key=lambda one: str(one["created"]))
    output.write_text(draw_spread(read_spread(newest), f"Bulk deployment of {newest['count']} VMs"))
    click.echo(f"{output}: deployment {newest['id']}")
