"""The schema changes after release 0.1.0: 0067_pre_resource_details.sql.

The name is that of the last of the migrations that were joined here: databases that have it have all of them.
"""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0067_pre_resource_details"
down_revision = "0001_pre_initial"


def upgrade() -> None:
    """Bring the schema of 0.1.0 to this one."""
    run_script_beside(__file__)
