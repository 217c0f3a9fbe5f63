"""The contract of drivers that put files on hosts."""

import pytest

from bulkdeploy.drivers.abilities.host_files import LARGEST, HostFile, HostFiles
from bulkdeploy.drivers.contract_suites.subjects import AbilityContract, Caller, Rig


class HostFilesContract(AbilityContract, of=HostFiles):
    """A file that was put is there, whole, whatever was there before. Subclasses give ``files_folder``, a path."""

    @pytest.mark.parametrize("size", [1, 70_000, LARGEST])
    def test_a_file_is_there_as_it_was_put(self, rig: Rig, caller: Caller, files_folder: str, size: int) -> None:
        """A file is under its path and no other, with its mode.

        Another file replaces it; the same file changes nothing.
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
