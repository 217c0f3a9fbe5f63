"""What a driver keeps that puts files on hosts."""

import pytest

from bulkdeploy.drivers.contract_suites.subjects import Caller, Rig
from bulkdeploy.drivers.host_files import LARGEST, HostFile


class HostFilesContract:
    """A file that was put is there, whole, whatever was there before. Subclasses give ``files_folder``, a path."""

    @pytest.mark.parametrize("size", [1, 70_000, LARGEST])
    def test_a_file_is_there_as_it_was_put(self, rig: Rig, caller: Caller, files_folder: str, size: int) -> None:
        """Under its path and no other; a shorter one takes its place, and putting it again changes nothing."""
        driver, host = rig.driver, rig.hosts[0]
        path, other = f"{files_folder}/new/app.conf", f"{files_folder}/new/other.conf"
        assert driver.checksums_of_files(host, [path, other], timeout_s=caller.timeout_s) == {}
        for content in (b"x" * size, b"shorter\n", b"shorter\n"):
            file = HostFile(path, content)
            driver.put_file(host, file, timeout_s=caller.timeout_s)
            found = driver.checksums_of_files(host, [path, other], timeout_s=caller.timeout_s)
            assert found == {path: file.checksum}
