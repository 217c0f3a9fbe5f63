"""Ganeti's own Python client of confd, run by Debian's Python: ``confd_client.py KEY_FILE ADDRESS PORT QUERIES``.

QUERIES is a JSON list of [type, query]; the output is one of the answers, as [status, answer], in their order.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, "/usr/share/ganeti/3.0")

from ganeti.confd import client as confd  # type: ignore[import-not-found]


def main(key_file: str, address: str, port: str, queries: str) -> None:
    """Ask one by one."""
    kept = confd.StoreResultCallback()
    asking = confd.ConfdClient(Path(key_file).read_text(), [address], kept, port=int(port))
    found = []
    for kind, query in json.loads(queries):
        request = confd.ConfdClientRequest(type=kind, query=query)
        asking.SendRequest(request, async_=False)
        asking.WaitForReply(request.rsalt)
        _, answer = kept.GetResponse(request.rsalt)
        found.append([answer.server_reply.status, answer.server_reply.answer])
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
