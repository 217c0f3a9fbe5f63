"""Settings, profiles and the catalogue: kept safely, and enough to work without the server."""

import stat
from pathlib import Path

from tests.cli.conftest import Monkey
from tests.cli.recorded_answers import apis
from tests.cli.recorded_server import API_KEY, SECRET_KEY, RecordedServer


def config_path(home: Path) -> Path:
    """Where the configuration file is."""
    return home / ".config" / "bulkmonkey" / "config"


def test_set_makes_a_profile_for_its_owner_only(bare_monkey: Monkey, home: Path, recorded: RecordedServer) -> None:
    """``set`` makes profile and file; the file and its directory are closed to other users."""
    assert bare_monkey("set", "profile", "lab").status == 0
    for words in (("url", recorded.url), ("apikey", API_KEY), ("secretkey", SECRET_KEY), ("output", "csv")):
        done = bare_monkey("set", *words)
        assert done.status == 0
        assert SECRET_KEY not in done.err
        assert API_KEY not in done.err
    path = config_path(home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert bare_monkey("list", "zones").out.startswith("allocationstate,id,name")


def test_set_secretkey_without_a_value_reads_standard_input(bare_monkey: Monkey, home: Path) -> None:
    """``set secretkey`` takes the key from standard input, off the command line."""
    assert bare_monkey("set", "secretkey", text=f"{SECRET_KEY}\n").status == 0
    assert SECRET_KEY in config_path(home).read_text(encoding="utf-8")


def test_a_key_may_begin_with_a_dash(bare_monkey: Monkey, home: Path) -> None:
    """One key in 64 does: ``set apikey -abc`` is no option; an option after the name still is one."""
    assert bare_monkey("-p", "localcloud", "set", "apikey", "-Uabc").status == 0
    assert "apikey = -Uabc" in config_path(home).read_text(encoding="utf-8")
    assert bare_monkey("set", "secretkey", "-p", "localcloud", text="-key\n").status == 0
    assert "secretkey = -key" in config_path(home).read_text(encoding="utf-8")


def test_settings_are_shown_without_secrets(monkey: Monkey) -> None:
    """``set`` alone and ``profile`` show what is set, and hide keys."""
    done = monkey("set", "-o", "csv")
    assert "profile,lab" in done.out
    assert SECRET_KEY not in done.out
    assert API_KEY not in done.out
    assert "lab" in monkey("profile", "-o", "csv").out


def test_a_wrong_setting_is_refused(monkey: Monkey, home: Path) -> None:
    """Names and values that cannot be are refused with status 2, and the file stays as it is."""
    before = config_path(home).read_text(encoding="utf-8")
    wrong = (
        ("colour", "blue"),
        ("timeout", "soon"),
        ("verifycert", "maybe"),
        ("output", "xml"),
        ("url", "ftp://x"),
    )
    for name, value in (*wrong, ("profile", "a]b")):
        assert monkey("set", name, value).status == 2
    assert config_path(home).read_text(encoding="utf-8") == before


def test_profiles_are_changed_to(monkey: Monkey, bare_monkey: Monkey) -> None:
    """``profile NAME`` changes to a profile that exists; ``-p`` uses one for a command."""
    assert monkey("profile", "localcloud").status == 0
    assert monkey("list", "zones").status == 1
    assert monkey("list", "zones", "-p", "lab").status == 0
    assert monkey("profile", "elsewhere").status == 2
    assert bare_monkey("list", "zones", BULKMONKEY_PROFILE="lab").status == 0


def test_an_open_file_is_closed_with_a_warning(monkey: Monkey, home: Path) -> None:
    """A configuration that others could read is closed to them, and its owner told."""
    config_path(home).chmod(0o644)
    done = monkey("list", "zones")
    assert done.status == 0
    assert "could be read by other users" in done.err
    assert stat.S_IMODE(config_path(home).stat().st_mode) == 0o600


def test_cloudmonkeys_own_file_is_read(bare_monkey: Monkey, recorded: RecordedServer, tmp_path: Path) -> None:
    """``-c ~/.cmk/config`` works with the file that CloudMonkey writes."""
    path = tmp_path / "config"
    path.write_text(
        "prompt       = cmk\nasyncblock   = true\ntimeout      = 1800\noutput       = default\n"
        "verifycert   = true\nprofile      = lab\nautocomplete = true\ndebug = false\n\n"
        f"[lab]\nurl       = {recorded.url}\nusername  =\npassword  =\ndomain    = /\n"
        f"apikey    = {API_KEY}\nsecretkey = {SECRET_KEY}\n",
        encoding="utf-8",
    )
    assert bare_monkey("list", "zones", "-c", str(path)).status == 0
    assert bare_monkey("list", "zones", "-c", str(tmp_path / "none")).status == 2


def test_an_unreadable_file_is_a_usage_error(monkey: Monkey, home: Path) -> None:
    """A file that is no configuration is named, not ignored."""
    config_path(home).write_text("what is this\n", encoding="utf-8")
    done = monkey("list", "zones")
    assert done.status == 2
    assert "cannot read the configuration file" in done.err


def test_help_and_completion_work_offline(monkey: Monkey, recorded: RecordedServer, home: Path) -> None:
    """After ``sync``, help and completion need no server; the cache is closed to other users."""
    assert f"{len(apis())} APIs" in monkey("sync").err
    requested = len(recorded.seen)
    assert "zoneid*" in monkey("deploy", "virtualmachine", "-h").out
    assert "deploy virtualmachine" in monkey("deploy", "-h").out
    assert "Verbs" in monkey("-h").out
    assert "virtualmachine\t" in monkey("__complete", text="bulkmonkey deploy ").out
    assert "zoneid=\trequired uuid" in monkey("__complete", text="bulkmonkey deploy virtualmachine zo").out
    assert len(recorded.seen) == requested
    (cache,) = (home / ".cache" / "bulkmonkey").glob("*.json")
    assert stat.S_IMODE(cache.stat().st_mode) == 0o600
    assert API_KEY not in cache.name


def test_a_damaged_cache_is_read_anew(monkey: Monkey, home: Path) -> None:
    """A cache that cannot be read is as good as none."""
    monkey("sync")
    (cache,) = (home / ".cache" / "bulkmonkey").glob("*.json")
    for content in ("{", "[]", '{"form": 1}', '{"form": 1, "apis": [3]}'):
        cache.write_text(content, encoding="utf-8")
        assert monkey("list", "zones").status == 0


def test_help_on_an_api_says_what_it_takes(monkey: Monkey) -> None:
    """Help lists parameters with types and required marks, fields and examples; so does ``help``."""
    for words in (("bulkdeploy", "virtualmachine", "-h"), ("help", "bulk", "deployvirtualmachine")):
        done = monkey(*words)
        assert done.status == 0
        for text in ("virtualmachinecount*", "integer", "Examples", "dryrun=true", "jobinstanceid"):
            assert text in done.out
    assert "explain DEPLOYMENT | JOB" in monkey("explain", "-h").out


def test_the_version_is_printed(bare_monkey: Monkey) -> None:
    """``-v`` names program and version without a server."""
    done = bare_monkey("-v")
    assert (done.status, done.out.split()[0]) == (0, "bulkmonkey")
