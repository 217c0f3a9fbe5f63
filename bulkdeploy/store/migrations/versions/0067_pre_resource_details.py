"""The schema changes after release 0.1.0: 0067_pre_resource_details.sql.

Several migrations were joined here under the name of the last of them. A database that has this revision has all of
them.
"""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0067_pre_resource_details"
down_revision = "0001_pre_initial"


def upgrade() -> None:
    """Change the schema of release 0.1.0 to this revision."""
    run_script_beside(__file__)
