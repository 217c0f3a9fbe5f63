"""The state that is shared by the commands of one process: configuration, connections and catalogues."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bulkdeploy.cli.command_line import Options
from bulkdeploy.cli.concealment import prompt_secret
from bulkdeploy.cli.connection import config_file
from bulkdeploy.cli.connection.catalogue import Catalogue
from bulkdeploy.cli.connection.catalogue_cache import CatalogueCache
from bulkdeploy.cli.connection.clock import Clock
from bulkdeploy.cli.connection.config_file import ConfigFile
from bulkdeploy.cli.connection.profiles import Connection, Preferences, complete_url, connection, preferences
from bulkdeploy.cli.failures import UsageError

if TYPE_CHECKING:
    from bulkdeploy.cli.connection.transport import Transport

PrintMessage = Callable[[str], None]

FROM_ENVIRONMENT = {
    "url": ("BULKMONKEY_URL", "CLOUDSTACK_ENDPOINT"),
    "apikey": ("BULKMONKEY_APIKEY", "CLOUDSTACK_KEY"),
    "secretkey": ("BULKMONKEY_SECRETKEY", "CLOUDSTACK_SECRET"),
}
"""Variables that win over the profile in use, and those (of the ``cs`` client) that fill its gaps."""


class Workspace:
    """The state of one bulkmonkey process: its configuration files, connections and catalogues."""

    def __init__(
        self,
        environment: Mapping[str, str],
        clock: Clock,
        warn: PrintMessage,
        print_debug: PrintMessage,
        *,
        may_connect: bool = True,
    ) -> None:
        """Create the workspace. ``warn`` receives warnings, and ``print_debug`` receives lines of debug output.

        If ``may_connect`` is false, the workspace does not prompt for secrets.
        """
        self.environment, self.clock, self.warn, self.may_connect = environment, clock, warn, may_connect
        self.debug = False
        self._print_debug, self._requested = print_debug, dict[str, str]()
        self.cache = CatalogueCache(config_file.cache_directory())
        self._files: dict[Path, ConfigFile] = {}
        self._transports: dict[Connection, Transport] = {}
        self._catalogues: dict[Connection, Catalogue] = {}

    def config(self, options: Options) -> ConfigFile:
        """Return the configuration file that a command line, else the environment, names, or else the default one.

        Raises:
            UsageError: the file that the command line names does not exist.
        """
        named = options.config or self.environment.get("BULKMONKEY_CONFIG")
        path = Path(named).expanduser() if named else config_file.default_path()
        if options.config and not path.exists() and options.words[:1] != ("set",):
            raise UsageError(f"there is no configuration file {path}")
        if path not in self._files:
            self._files[path] = ConfigFile.read(path, self.warn)
        return self._files[path]

    def profile_name(self, options: Options) -> str:
        """Return the profile that a command line, else the environment, else the configuration file selects."""
        return options.profile or self.environment.get("BULKMONKEY_PROFILE") or self.config(options).current

    def preferences(self, options: Options) -> Preferences:
        """Return the preferences of a command line: the settings, overridden by its options."""
        chosen = preferences(self.config(options).shared)
        timeout = chosen.timeout if options.timeout is None else options.timeout or None
        return replace(
            chosen,
            output=options.output or chosen.output,
            timeout=timeout,
            asyncblock=chosen.asyncblock and not options.no_wait,
            pager=chosen.pager and not options.no_pager,
        )

    def connection(self, options: Options) -> Connection:
        """Return the connection of a command line: from its options, else the environment, else the profile."""
        config = self.config(options)
        name = self.profile_name(options)
        section = dict(config.profile(name))
        for setting, (first, last) in FROM_ENVIRONMENT.items():
            if options.profile is None and self.environment.get(first):
                section[setting] = self.environment[first]
            elif not section.get(setting) and self.environment.get(last):
                section[setting] = self.environment[last]
        made = connection(name, section, config.shared)
        return replace(
            made,
            url=complete_url(options.url) if options.url else made.url,
            apikey=self._secret("apikey", options.apikey) or made.apikey,
            secretkey=self._secret("secretkey", options.secretkey) or made.secretkey,
            verifycert=made.verifycert and not options.insecure,
        )

    def transport(self, connection: Connection) -> "Transport":
        """Return the connection to an API, which is opened once and reused."""
        from bulkdeploy.cli.connection.transport import Transport  # noqa: PLC0415 - help needs no HTTP client

        if connection not in self._transports:
            self._transports[connection] = Transport(connection, self.clock, self.print_debug)
        return self._transports[connection]

    def known_catalogue(self, connection: Connection) -> Catalogue | None:
        """Return the catalogue if it is known without a request to the server, otherwise None."""
        if connection not in self._catalogues:
            kept = self.cache.load(connection)
            if kept is None:
                return None
            self._catalogues[connection] = kept
        return self._catalogues[connection]

    def catalogue(self, connection: Connection, print_message: PrintMessage) -> Catalogue:
        """Return the catalogue of a profile. The first use reads the catalogue from the server.

        Raises:
            ApiRefused, ConnectionFailed: the catalogue is not cached, and reading it from the server failed.
        """
        known = self.known_catalogue(connection)
        if known is not None:
            return known
        print_message(f"Reading the list of APIs from {connection.url} ('sync' reads it again)")
        return self.sync(connection)

    def sync(self, connection: Connection, **how: Any) -> Catalogue:
        """Read the catalogue from the server and store it in the cache. ``how`` is passed to ``Transport.call``."""
        self._catalogues[connection] = self.cache.sync(self.transport(connection), **how)
        return self._catalogues[connection]

    def print_debug(self, text: str) -> None:
        """Print a line of debug output if debug output is enabled."""
        if self.debug:
            self._print_debug(text)

    def close(self) -> None:
        """End the sessions and close the connections of the workspace."""
        for transport in self._transports.values():
            transport.close()
        self._transports.clear()

    def _secret(self, name: str, given: str | None) -> str | None:
        """Return a secret of the command line.

        ``@FILE`` is replaced by the text of the file. ``-`` prompts for the secret once. Other values are the
        secret itself.
        """
        if given == "-":
            if name not in self._requested:
                self._requested[name] = prompt_secret(name) if self.may_connect else ""
            return self._requested[name]
        if given is None or not given.startswith("@"):
            return given
        try:
            return Path(given[1:]).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {given[1:]} for {name}: {error}") from error
