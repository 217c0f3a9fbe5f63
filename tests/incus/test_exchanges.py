"""What tests without a cluster replay, on a live one. With RECORD=FILE it is recorded anew."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import requests
from sqlalchemy import Engine

from bulkdeploy.drivers.incus.driver import access_of
from bulkdeploy.drivers.incus.options import IncusOptions
from bulkdeploy.drivers.incus.rest import Incus, Refused, path_of
from tests.drivers.incus_guest import life
from tests.drivers.test_incus import assert_lived, driver_for
from tests.incus.cluster import driver_options, why_not
from tests.incus.image import write_image

if (reason := why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

PATIENCE_S = 60.0
DROPPED = ("expanded_config", "expanded_devices", "api_extensions", "certificate")


def test_a_guest_lives_as_the_recording_says(engine: Engine, tmp_path: Path) -> None:
    """The same steps, with the same answers of the driver."""
    incus = Incus(access_of(IncusOptions.model_validate(driver_options())))
    write_image(tmp_path / "image")
    try:
        incus.send("GET", path_of("images", "aliases", "busybox"), timeout_s=PATIENCE_S)
    except Refused:
        with (tmp_path / "image").open("rb") as image:
            made = incus.run("POST", path_of("images"), iter([image.read()]), timeout_s=PATIENCE_S)
        alias = {"name": "busybox", "target": made["fingerprint"]}
        incus.send("POST", path_of("images", "aliases"), alias, timeout_s=PATIENCE_S)
    incus.close()
    exchanges: list[dict[str, Any]] = []

    def keep(answer: requests.Response, **_: object) -> None:
        sent = answer.request
        exchanges.append(
            {
                "method": sent.method,
                "path": (sent.path_url or "").partition("?")[0],
                "if_match": sent.headers.get("If-Match"),
                "status": answer.status_code,
                "answer": _shortened(answer.json()),
                "etag": answer.headers.get("ETag"),
            }
        )

    driver = driver_for(engine, **driver_options())
    driver._incus.http.session.hooks["response"].append(keep)
    seen = dict(life(driver))
    driver.close()
    assert_lived(seen)
    if (path := os.environ.get("RECORD")) is not None:
        Path(path).write_text(json.dumps(exchanges, indent=1) + "\n")


def _shortened(value: Any) -> Any:
    """Without what the driver does not read."""
    if isinstance(value, list):
        return [_shortened(one) for one in value]
    if isinstance(value, dict):
        return {key: _shortened(one) for key, one in value.items() if key not in DROPPED}
    return value
