"""docs/reference/cli.md: what it says of options, settings, exit statuses and the recording is so."""

import re
from pathlib import Path
from xml.etree import ElementTree

from bulkdeploy.cli.command_line import OPTIONS
from bulkdeploy.cli.connection.profiles import FORMATS, SETTINGS
from bulkdeploy.cli.failures import ExitStatus
from bulkdeploy.cli.own_commands import OWN_COMMANDS
from bulkdeploy.cli.workspace import FROM_ENVIRONMENT

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")


def test_every_option_named_exists() -> None:
    """Long options on the page are options of the program."""
    known = {word for option in OPTIONS for word in option.opts}
    assert set(re.findall(r"(?<![-\w])--[a-z][a-z-]+", PAGE)) <= known


def test_every_setting_named_exists() -> None:
    """``set NAME`` on the page names settings of the program."""
    assert set(re.findall(r"\bset ([a-z]+)", PAGE)) - {"profile"} <= SETTINGS.keys()


def test_every_command_and_format_is_on_the_page() -> None:
    """Bulkmonkey's own commands, formats and variables are all named."""
    for word in (*OWN_COMMANDS, *FORMATS, *(name for names in FROM_ENVIRONMENT.values() for name in names)):
        assert word in PAGE


def test_the_exit_statuses_are_those_of_the_program() -> None:
    """The table of exit statuses has every status, once."""
    assert [int(status) for status in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)] == list(ExitStatus)


def test_the_recording_is_a_picture_of_several_frames() -> None:
    """The recording is well-formed, holds several screens and loads nothing from elsewhere."""
    text = (DOCS / "images" / "bulkmonkey.svg").read_text(encoding="utf-8")
    frames = ElementTree.fromstring(text).findall("{http://www.w3.org/2000/svg}g[@class='frame']")  # noqa: S314 - ours
    assert len(frames) > 5
    assert "url(http" not in text
