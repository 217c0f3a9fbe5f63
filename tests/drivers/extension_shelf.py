"""An extension whose guests are files on a shelf, and which fails as it is told to: in the file ``faults`` there.

A line ACTION FAULT is used once. Faults: refuse, garbage, half, hang, flood, lost (done, then killed), early
(killed before), idle (nothing is done, and success is said). Every action about a node that the file ``silent``
names fails.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

action, file, seconds = sys.argv[1:]
payload = json.loads(Path(file).read_text())
node = str(payload["externaldetails"].get("host", {}).get("node", ""))
shelf = Path(payload["externaldetails"]["extension"]["shelf"])
(shelf / "log").open("a").write(f"{action} {' '.join(sorted(os.environ))}\n")
(shelf / "requests").open("a").write(f"{action} {payload.get('requestid', '-')}\n")


def fault_of(action: str) -> str:
    """Take the first fault that waits for this action."""
    waiting = shelf / "faults"
    lines = waiting.read_text().splitlines() if waiting.exists() else []
    for line in lines:
        if line.split()[0] == action:
            lines.remove(line)
            waiting.write_text("".join(f"{one}\n" for one in lines))
            return line.split()[1]
    return ""


def fail(text: str) -> None:
    """End with exit code 1."""
    print(json.dumps({"status": "error", "error": text}))
    sys.exit(1)


def end(answer: dict[str, object]) -> None:
    """Say what was done, or what a fault makes of it."""
    if fault == "lost":
        os.kill(os.getpid(), signal.SIGKILL)
    print("{'what" if fault == "garbage" else '{"status": "suc' if fault == "half" else json.dumps(answer))
    sys.exit()


silent = shelf / "silent"
if silent.exists() and node in silent.read_text().split():
    fail(f"node {node} does not answer")
fault = fault_of(action)
token = payload["externaldetails"]["extension"].get("token", "")
if fault == "refuse":
    fail(f"out of paper, token {token}")
if fault == "hang":
    time.sleep(3600)
if fault == "flood":
    while True:
        sys.stdout.write("x" * 65536)
if fault == "idle":
    print("{}")
    sys.exit()
if fault == "early":
    os.kill(os.getpid(), signal.SIGKILL)

if action == "statuses":
    states = {path.stem: path.read_text() for path in shelf.glob("*.guest")}
    nodes = {path.stem: path.read_text() for path in shelf.glob("*.node")}
    states |= {name: "PowerOff" for name, runs_on in nodes.items() if name in states and runs_on != node}
    end({"status": "success", "power_state": states})
if action == "activity":
    disks = [shelf / f"{one['name']}.disk" for one in payload["virtualmachines"]]
    numbers_written = [disk.read_text() for disk in disks if disk.exists()]
    end({"status": "success", "mark": " ".join([payload["silenthost"]["node"], *numbers_written])})
guest = payload["cloudstack.vm.details"]
page = shelf / f"{guest['name']}.guest"
answer: dict[str, object] = {"status": "success"}
if action == "prepare":
    numbers = shelf / "numbers"
    number = int(numbers.read_text()) + 1 if numbers.exists() else 100
    written = shelf / f"numbers.{os.getpid()}"
    written.write_text(str(number))
    written.replace(numbers)
    answer = {"details": {"shelf_number": str(number), "External:number": str(number)}}
elif action == "create":
    if page.exists():
        fail("it exists already")
    if guest["details"].get("shelf_number") != payload["externaldetails"]["virtualmachine"]["number"]:
        fail("what prepare answered did not come back")
    page.write_text("PowerOn")
    (shelf / f"{guest['name']}.node").write_text(node)
elif action == "status":
    if not page.exists():
        fail("there is no such guest")
    answer = {"status": "success", "power_state": page.read_text()}
elif action == "getconsole":
    screen = shelf / "screen"
    if not screen.exists():
        fail("guests have no screens")
    answer = {"status": "success", "console": json.loads(screen.read_text())}
elif action == "delete":
    page.unlink(missing_ok=True)
    (shelf / f"{guest['name']}.node").unlink(missing_ok=True)
elif not page.exists():
    fail("there is no such guest")
elif action == "take photo":
    (shelf / "photos").open("a").write(json.dumps(payload) + "\n")
    print(f"a photo of {guest['name']}, token {token}")
    sys.exit()
else:
    page.write_text("PowerOff" if action == "stop" else "PowerOn")
    if action == "start":
        (shelf / f"{guest['name']}.node").write_text(node)
end(answer)
