"""The contract of drivers that write files to hosts."""

import pytest

from bulkdeploy.drivers.abilities.host_files import LARGEST, HostFile, HostFiles
from bulkdeploy.drivers.contract_suites.subjects import AbilityContract, Caller, Rig


class HostFilesContract(AbilityContract, of=HostFiles):
    """The contract that a written file is complete, whatever was there before.

    Subclasses define the fixture ``files_folder``, the path of a folder on hosts.
    """

    @pytest.mark.parametrize("size", [1, 70_000, LARGEST])
    def test_a_file_is_there_as_it_was_put(self, rig: Rig, caller: Caller, files_folder: str, size: int) -> None:
        """A file exists under its path with its content and mode, and no other file is written.

        Another file replaces it, and writing the same file changes nothing.
        """
        driver, host = HostFiles.of(rig.driver), rig.hosts[0]
        path, other = f"{files_folder}/new/app.conf", f"{files_folder}/new/other.conf"
        assert driver.states_of_files(host, [path, other], timeout_s=caller.timeout_s) == {}
        for content, mode in (
            (b"x" * size, 0o644),
            (b"shorter\n", 0o644),
            (b"shorter\n", 0o755),
            (b"shorter\n", 0o755),
        ):
            file = HostFile(path, content, mode)
            driver.put_file(host, file, timeout_s=caller.timeout_s)
            found = driver.states_of_files(host, [path, other], timeout_s=caller.timeout_s)
            assert found == {path: file.state}
