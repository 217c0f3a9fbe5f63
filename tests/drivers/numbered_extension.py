"""An extension for Proxmox VE's API: ``prepare`` answers the next free number and reserves nothing.

It has the actions that the service needs, and fails as extensions in shell do: exit code 1 and an error.
"""

import json
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

action, file, seconds = sys.argv[1:]
payload = json.loads(Path(file).read_text())
external = payload["externaldetails"]
node = external["host"].get("node")
guest = payload.get("cloudstack.vm.details", {})
number = guest.get("details", {}).get("proxmox_vmid", "")


def call(method: str, path: str, **given: str) -> Any:
    """Return the data that the API answers; a refusal ends the program."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    url, body = f"https://{external['extension']['url']}:8006/api2/json{path}", urllib.parse.urlencode(given)
    request = urllib.request.Request(url, data=body.encode() if given else None, method=method)
    try:
        with urllib.request.urlopen(request, context=context) as answer:  # noqa: S310 - the test names the API
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        fail(json.load(error)["message"])


def done(method: str, path: str, **given: str) -> None:
    """Have the API do something, and wait for its end."""
    task = urllib.parse.quote(call(method, path, **given))
    end = call("GET", f"/nodes/{node}/tasks/{task}/status")["exitstatus"]
    if end != "OK":
        fail(end)


def fail(text: str) -> None:
    """End with exit code 1."""
    print(json.dumps({"error": text}))
    sys.exit(1)


if not node:
    fail("Missing required fields: node")
words = {"running": "poweron", "stopped": "poweroff"}
where = f"/nodes/{node}/qemu"
if action == "prepare":
    print(json.dumps({"details": {"proxmox_vmid": call("GET", "/cluster/nextid")}}))
elif action == "create":
    template = external["virtualmachine"]["template_id"]
    done("POST", f"{where}/{template}/clone", newid=number, name=guest["name"])
    done("POST", f"{where}/{number}/config", cores=str(guest["cpus"]))
    done("POST", f"{where}/{number}/status/start", wait=seconds)
    print("Instance created")
elif action in ("start", "stop", "reboot"):
    done("POST", f"{where}/{number}/status/{action}", wait=seconds)
    print(f"Instance is {action}ed")
elif action == "delete":
    if number in {str(one["vmid"]) for one in call("GET", where)}:
        done("DELETE", f"{where}/{number}")
    print("Instance deleted")
elif action == "status":
    found = {str(one["vmid"]): one["status"] for one in call("GET", where)}
    print(words.get(found.get(number, ""), "unknown"))
elif action == "statuses":
    states = {one["name"]: words[one["status"]] for one in call("GET", where)}
    print(json.dumps({"status": "success", "power_state": states}))
else:
    fail("Invalid action")
