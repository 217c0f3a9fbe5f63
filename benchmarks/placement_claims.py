"""Claims in OpenStack Placement, for row 18: run by a Python that has it, which is not ours.

In-process, without HTTP: threads call its WSGI application. Arguments: the database's URL, rounds, clients, places.
Each round a new provider has that many places, and the clients claim one at a time until there is none. Prints
JSON: ``claims seconds cpu_seconds overcommitted``.
"""

import json
import sys
import time
from threading import Barrier, Thread
from uuid import uuid4

from oslo_config import cfg  # type: ignore[import-not-found]
from placement import conf, deploy  # type: ignore[import-not-found]
from webob import Request  # type: ignore[import-untyped]

HEADERS = {"OpenStack-API-Version": "placement 1.36", "X-Auth-Token": "admin", "Accept": "application/json"}
CONCURRENT = "placement.concurrent_update"


def main(url: str, rounds: int, clients: int, places: int) -> None:
    """Run all rounds."""
    config = cfg.ConfigOpts()
    conf.register_opts(config)
    config.set_override("connection", url, group="placement_database")
    config.set_override("sync_on_startup", True, group="placement_database")
    config.set_override("max_pool_size", clients, group="placement_database")
    config.set_override("auth_strategy", "noauth2", group="api")
    config([], project="placement", default_config_files=[])
    app = deploy.loadapp(config)

    def call(method: str, path: str, body: object = None) -> tuple[int, dict[str, object]]:
        request = Request.blank(path, method=method, headers=HEADERS)
        if body is not None:
            request.json, request.content_type = body, "application/json"
        answer = request.get_response(app)
        return answer.status_int, (answer.json if answer.body else {})

    def one_round() -> tuple[float, float, int]:
        name = str(uuid4())
        call("POST", "/resource_providers", {"name": name, "uuid": name})
        inventory = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": places}}}
        assert call("PUT", f"/resource_providers/{name}/inventories", inventory)[0] == 200
        start = Barrier(clients + 1)
        threads = [Thread(target=client, args=(name, start)) for _ in range(clients)]
        for thread in threads:
            thread.start()
        began, cpu = time.perf_counter(), time.process_time()
        start.wait()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began, time.process_time() - cpu
        used = call("GET", f"/resource_providers/{name}/usages")[1]["usages"]
        return *took, used["VCPU"]  # type: ignore[index]

    def client(provider: str, start: Barrier) -> None:
        start.wait()
        while True:
            wanted = {
                "allocations": {provider: {"resources": {"VCPU": 1}}},
                "consumer_generation": None,
                "project_id": "bench",
                "user_id": "bench",
            }
            status, answer = call("PUT", f"/allocations/{uuid4()}", wanted)
            if status != 204 and CONCURRENT not in json.dumps(answer):
                return

    one_round()
    found = [one_round() for _ in range(rounds)]
    print(
        json.dumps(
            {
                "claims": sum(one[2] for one in found),
                "seconds": sum(one[0] for one in found),
                "cpu_seconds": sum(one[1] for one in found),
                "overcommitted": sum(one[2] > places for one in found),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
