"""What the database makes as JSON is to the byte what the API makes of rows."""

from dataclasses import replace

import orjson
import pytest
from sqlalchemy import text

from bulkdeploy.api.envelope import Renderer
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.store.rows.listing import Paging
from bulkdeploy.store.rows.visibility import Visibility
from bulkdeploy.store.virtual_machines.virtual_machine_details import EVERYTHING, Detail
from bulkdeploy.store.virtual_machines.virtual_machines import list_virtual_machines
from tests.lists.test_shapes import COMMANDS
from tests.support.zones.world import World

NASTY = "".join(map(chr, range(1, 0x20))) + '"\\/\x7f\u0085\u2028é漢🚀<&>%s%(name)s{}:null,"a":null'
ODD_VMS = """
UPDATE virtual_machines SET display_name = :nasty, user_data = 'b3du',
    details = jsonb_build_object('plain', 'text', :nasty, :nasty, 'none', NULL) WHERE name = 'acme-1';
UPDATE virtual_machines SET key_pairs = ARRAY['one', :nasty] WHERE name = 'acme-2';
UPDATE virtual_machines SET key_pairs = '{}', host_id = NULL
    WHERE name = 'neighbour-1';
UPDATE networks SET name = :nasty WHERE name = 'guests';
INSERT INTO nics (vm_id, network_id, mac_address, device_id, is_default)
    SELECT v.id, n.id, '0' || k || v.id, k, false FROM virtual_machines v, networks n, generate_series(7, 11) k
    WHERE v.name IN ('acme-2', 'rival-1') AND n.name = :nasty;
UPDATE nics SET is_default = false WHERE vm_id = (SELECT id FROM virtual_machines WHERE name = 'admin-1');
DELETE FROM nics WHERE vm_id = (SELECT id FROM virtual_machines WHERE name = 'moon-1');
INSERT INTO async_jobs (kind, cmd, account_id, user_id, instance_type, instance_id)
    SELECT '', '', 2, 2, 'VirtualMachine', v.id FROM virtual_machines v, generate_series(1, 2)
    WHERE v.name LIKE 'acme-%';
INSERT INTO resource_tags (resource_type, resource_id, key, value, account_id)
    SELECT 'UserVm', v.id, k, :nasty, v.account_id FROM virtual_machines v, unnest(ARRAY['b', 'B', 'a-1', :nasty]) k
    WHERE v.name IN ('rival-1', 'moon-1')
""".replace(":nasty", "CAST(:nasty AS text)").split(";")
"""What every escape, every NULL and every list of none, one and many takes."""

DETAILS = (
    EVERYTHING,
    *(frozenset({detail}) for detail in Detail),
    frozenset({Detail.NICS, Detail.AFFINITY_GROUPS}),
)


@pytest.mark.long
@pytest.mark.parametrize("role", [*RoleType, None])
def test_vms(world: World, role: RoleType | None) -> None:
    """All VMs, with any part of them, for any role."""
    renderer = Renderer(COMMANDS["listVirtualMachines"])
    with world.engine.connect() as connection:
        for change in ODD_VMS:
            assert connection.execute(text(change), {"nasty": NASTY}).rowcount
        for details in DETAILS:
            for arguments in ({}, {"userdata": True}, {"sortby": "-name"}):
                page = list_virtual_machines(
                    connection,
                    Visibility(),
                    arguments,
                    Paging(limit=None),
                    details,
                    sees_instance_names=True,
                    sees_destroyed=True,
                )
                for warning in (None, "a warning"):
                    made, rendered = (
                        renderer.content(one, role, json=True, warning=warning)
                        for one in (page, replace(page, json=None))
                    )
                    assert orjson.dumps(made) == orjson.dumps(rendered)
        assert page.count == len(page.rows) > 5
        connection.rollback()
