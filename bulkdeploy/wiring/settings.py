"""The settings of a process: environment variables, and a TOML file (one file: they are read together).

Environment variables override the file. Settings that operators change while the service runs are CloudStack's
global settings instead (``domain.configuration``). ``config/default.toml`` is generated from this module.
"""

import json
import re
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from bulkdeploy.queue.redis_servers import check_redis_url
from bulkdeploy.security.guarded_fetch import FetchRules
from bulkdeploy.security.guest_networks import GuestNetworks
from bulkdeploy.store.database.database_url import database_parameters

ENVIRONMENT_PREFIX = "BULKDEPLOY_"

EVERY_ADDRESS = ("0.0.0.0", "[::]", "*", "")  # noqa: S104 - for comparing

ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+):[0-9]{1,5}")
LAST_PORT = 65535

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]

SECRETS = ("database_password", "redis_password", "secret_key", "admin_password")
"""Settings that can be read from a file, such as a secret mounted into a container: NAME_file is its path."""

FILE_SUFFIX = "_file"


class Settings(BaseSettings):
    """The settings that a process needs before it can use the database."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        env_ignore_empty=True,
        hide_input_in_errors=True,
    )

    data_dir: Path = Field(
        default=Path(".data"),
        description="Directory of the embedded servers' data, logs, and generated secrets.",
    )
    database_url: str | None = Field(
        default=None,
        repr=False,
        description="URL of PostgreSQL, such as postgresql://user:password@host/database. For several servers: "
        "postgresql://user@one:5432,two:5432/database?target_session_attrs=read-write. "
        "Unset: `up` starts a server with its data in data_dir.",
    )
    database_password: SecretStr | None = Field(
        default=None, description="Password of the database's user, if database_url contains none."
    )
    database_password_file: Path | None = Field(default=None, description="File that contains database_password.")
    redis_url: str | None = Field(
        default=None,
        repr=False,
        description="URL of Redis or Valkey, such as redis://:password@host:6379/0, or of Sentinels, such as "
        "sentinel://:password@one:26379,two:26379/0?master=mymaster. Unset: `up` starts a server.",
    )
    redis_password: SecretStr | None = Field(
        default=None, description="Password of the Redis user, if redis_url contains none."
    )
    redis_password_file: Path | None = Field(default=None, description="File that contains redis_password.")
    listen: str = Field(
        default="127.0.0.1:8080",
        description="Address and port of the HTTP API.",
    )
    trusted_proxies: list[str] = Field(
        default_factory=list,
        description="Networks of reverse proxies of the HTTP API, such as 172.28.241.0/24. The service takes a "
        "client's address from the headers of these proxies. The global settings proxy.cidr and "
        "proxy.header.verify do the same.",
    )
    guest_health_networks: list[str] = Field(
        default_factory=list,
        description="Networks of guests that the sweeper may connect to for healthcheck=tcp:PORT, such as "
        "10.20.0.0/16. List no networks with machines that users must not probe: users choose the addresses of "
        "their networks. Loopback and link-local addresses and those of the service's own machines are always "
        "excluded. Unset: healthcheck=tcp:PORT is rejected.",
    )
    secret_key: SecretStr | None = Field(
        default=None,
        description="Fernet key that encrypts secrets in the database; the same on every machine. Several keys "
        "are separated by commas: the first one encrypts, and all can decrypt. "
        "Unset: a key is generated in data_dir/secret.key.",
    )
    secret_key_file: Path | None = Field(default=None, description="File that contains secret_key.")
    admin_password: SecretStr | None = Field(
        default=None,
        description="First password of the user `admin`. Unset: it is generated in data_dir/admin.password.",
    )
    admin_password_file: Path | None = Field(default=None, description="File that contains admin_password.")
    api_processes: int = Field(default=2, ge=1, le=64, description="Number of processes of the HTTP API.")
    api_threads: int = Field(
        default=8, ge=1, le=256, description="Number of requests that one API process answers at the same time."
    )
    api_niceness: int = Field(
        default=0,
        ge=0,
        le=19,
        description="Niceness of API processes, as in nice(1). With a higher number, workers get more CPU time "
        "while many clients poll, and API calls take longer while jobs run.",
    )
    shutdown_delay_seconds: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        description="Seconds for which an API process continues to answer after SIGTERM. It reports that it is not "
        "ready meanwhile, so that load balancers send calls to other processes.",
    )
    request_header_seconds: float = Field(
        default=10.0, gt=0, le=3600, description="Longest time for the headers of a request to arrive, in seconds."
    )
    request_body_seconds: float = Field(
        default=60.0, gt=0, le=3600, description="Longest time for the body of a request to arrive, in seconds."
    )
    keepalive_seconds: int = Field(
        default=75, ge=1, le=3600, description="Seconds after which a connection without a request is closed."
    )
    connections_per_address: int = Field(
        default=256,
        ge=1,
        le=100_000,
        description="Most connections from one client address to one API process. If there are more, those that "
        "have waited longest for a request are closed. Trusted proxies (proxy.cidr) have no such limit.",
    )
    allocator_directory: Path | None = Field(
        default=None,
        description="Directory of allocator programs with Ganeti's iallocator interface, which the settings "
        "placement.allocators.* name; Ganeti's own are in /usr/lib/ganeti/iallocators. This service runs "
        "programs from this directory, so only administrators may write there. Unset: no allocator programs.",
    )
    host_files: dict[str, Path] = Field(
        default_factory=dict,
        description="Files that are copied to hosts when they are added, and by `hosts push`: the path on hosts, "
        "and the path of the file on this machine, which may have at most 1 MiB.",
    )
    worker_processes: int = Field(
        default=2, ge=0, le=64, description="Number of worker processes that `up` starts."
    )
    worker_threads: int = Field(
        default=64, ge=1, le=1024, description="Number of jobs that one worker runs at the same time."
    )
    database_pool_size: int = Field(
        default=10, ge=1, le=500, description="Most database connections of one process."
    )
    database_prepared_statements: bool = Field(
        default=True,
        description="Use prepared statements. Set to false if a connection pooler does not support them, such as "
        "PgBouncer before 1.21 in transaction mode.",
    )
    lease_seconds: int = Field(
        default=60,
        ge=5,
        le=3600,
        description="Seconds after which another worker may take over a job whose lease was not renewed.",
    )
    sweep_interval_seconds: float = Field(
        default=2.0, ge=0.1, le=300, description="Pause between two rounds of the sweeper, in seconds."
    )
    driver_timeout_seconds: float = Field(
        default=600.0, gt=0, description="Seconds after which a call to a hypervisor has failed."
    )
    drivers: dict[str, str] = Field(
        default_factory=dict,
        description="Driver of each hypervisor type (KVM, VMware, XenServer, Simulator, ...); `default` is for all "
        "other types. In the environment: BULKDEPLOY_DRIVERS__KVM and so on. Unset: no drivers; `up` and `demo` "
        "simulate all hypervisors.",
    )
    driver: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        repr=False,
        description="Options of drivers, in a table [driver.NAME] for each driver.",
    )
    power: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        repr=False,
        description="Options of power drivers, which call the management controllers of hosts, in a table "
        "[power.NAME] for each driver: redfish (https, verify, ca_file, tries), ipmitool (program, interface, "
        "tries, answer_seconds).",
    )
    fetch: FetchRules = Field(
        default_factory=FetchRules, description="Rules for fetching the images of templates and ISOs."
    )
    failpoints_dir: Path | None = Field(
        default=None,
        description="Only for tests: a directory in which a file such as `completion.commit.before` kills the next "
        "process that passes this failpoint (`bulkdeploy/processes/failpoints.py`).",
    )
    monitoring_listen: str | None = Field(
        default=None,
        description="Address and port at which this process serves /metrics, /health/live and /health/ready. "
        "`up` gives each program the next port. Unset: only the API serves these paths, at `listen`.",
    )
    confd_listen: str = Field(
        default="127.0.0.1:1814",
        description="Address and UDP port of `confd`, which answers queries about hosts and VMs.",
    )
    confd_key_file: Path | None = Field(
        default=None,
        description="File whose content, including the last newline, is the key of confd queries and answers.",
    )
    confd_servers: list[str] = Field(
        default_factory=list,
        description="Addresses of all machines that run `confd`, for its clients. The first one is the master.",
    )
    confd_refresh_seconds: float = Field(
        default=1.0, gt=0, le=3600, description="Seconds between two readings of the database by `confd`."
    )
    confd_stale_seconds: float = Field(
        default=60.0,
        gt=0,
        description="Seconds without a reading of the database after which answers of `confd` contain their age.",
    )
    otlp_endpoint: str | None = Field(
        default=None,
        description="URL to which traces are sent as OTLP over HTTP, such as http://collector:4318. "
        "OpenTelemetry's variables (OTEL_...) have further options. Needs the extra `opentelemetry`. Unset: no "
        "traces.",
    )
    log_level: LogLevel = Field(default="INFO", description="Lowest level of messages that are logged.")
    log_format: Literal["text", "json"] = Field(
        default="text", description="Format of log lines: text for people, or JSON objects."
    )

    @model_validator(mode="before")
    @classmethod
    def _gather_secrets(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Read secrets from their files, and put the passwords into the URLs of their services."""
        values = dict(given)
        for name in SECRETS:
            if file := values.pop(name + FILE_SUFFIX, None):
                if values.get(name):
                    raise ValueError(f"{name} and {name}{FILE_SUFFIX} are both set: remove one of them")
                values[name] = _read_secret(name, Path(file))
        for service in ("database", "redis"):
            if password := values.pop(f"{service}_password", None):
                url = f"{service}_url"
                if not values.get(url):
                    raise ValueError(f"{service}_password is set and {url} is not")
                values[url] = with_password(values[url], getattr(password, "get_secret_value", lambda: password)())
        return values

    @field_validator("database_url")
    @classmethod
    def _check_database(cls, url: str | None) -> str | None:
        if url is not None:
            if not url.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
                raise ValueError("must start with postgresql://")
            database_parameters(url)
        return url

    @field_validator("drivers")
    @classmethod
    def _lower_types(cls, drivers: dict[str, str]) -> dict[str, str]:
        """Return the drivers with the hypervisor types in lower case, because the environment has upper case."""
        return {hypervisor.lower(): name for hypervisor, name in drivers.items()}

    @field_validator("listen", "monitoring_listen", "confd_listen")
    @classmethod
    def _check_listen(cls, listen: str | None) -> str | None:
        if listen is None:
            return None
        if ADDRESS.fullmatch(listen) is None or int(listen.rpartition(":")[2]) > LAST_PORT:
            raise ValueError(
                f"must be address:port with a port of at most {LAST_PORT}, such as 127.0.0.1:8080 or [::1]:8080, "
                f"not {listen!r}"
            )
        return listen

    @field_validator("trusted_proxies", "guest_health_networks")
    @classmethod
    def _check_networks(cls, networks: list[str]) -> list[str]:
        for network in networks:
            try:
                ip_network(network)
            except ValueError as error:
                raise ValueError(f"must be networks such as 172.28.241.0/24, not {network!r}") from error
        return networks

    @field_validator("otlp_endpoint")
    @classmethod
    def _check_receiver(cls, endpoint: str | None) -> str | None:
        if endpoint is not None:
            if not endpoint.startswith(("http://", "https://")):
                raise ValueError(f"must start with http:// or https://, not be {endpoint!r}")
            if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
                raise ValueError("traces need more packages: pip install 'bulkdeploy[opentelemetry]'")
        return endpoint

    @field_validator("redis_url")
    @classmethod
    def _check_redis(cls, url: str | None) -> str | None:
        if url is not None:
            check_redis_url(url)
        return url

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources: explicit values, then the environment, then the TOML file."""
        del dotenv_settings, file_secret_settings
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))

    @property
    def url(self) -> str:
        """The URL of the API for clients on this machine."""
        return _url(self.listen)

    @property
    def api_monitoring_url(self) -> str:
        """The URL at which an API process answers health checks, for clients on this machine."""
        return _url(self.monitoring_listen or self.listen)

    @property
    def server_hosts(self) -> tuple[str, ...]:
        """The names and addresses of this service's own servers, which the URLs of users may not point to."""
        database = {} if self.database_url is None else database_parameters(self.database_url)
        named = [*database.get("host", "").split(","), *database.get("hostaddr", "").split(",")]
        redis = "" if self.redis_url is None else urlsplit(self.redis_url).netloc.rpartition("@")[2]
        urls = [f"//{one}" for one in redis.split(",")] + [self.otlp_endpoint or ""]
        named += [urlsplit(url).hostname or "" for url in urls]
        return tuple(dict.fromkeys(host for host in named if host and not host.startswith("/")))

    @property
    def guest_networks(self) -> GuestNetworks:
        """The networks of guests that health checks may connect to."""
        return GuestNetworks.read(self.guest_health_networks, self.server_hosts)

    def require_database_url(self) -> str:
        """Return the URL of the database.

        Raises:
            SettingMissing: the setting is not set.
        """
        if self.database_url is None:
            raise SettingMissing("database_url")
        return self.database_url

    def require_redis_url(self) -> str:
        """Return the URL of the message broker.

        Raises:
            SettingMissing: the setting is not set.
        """
        if self.redis_url is None:
            raise SettingMissing("redis_url")
        return self.redis_url

    def environment(self) -> dict[str, str]:
        """Return these settings as environment variables for child processes, secrets included."""
        values = self.model_dump(mode="json", exclude_none=True)
        for name in ("secret_key", "admin_password"):
            secret: SecretStr | None = getattr(self, name)
            if secret is not None:
                values[name] = secret.get_secret_value()
        return {f"{ENVIRONMENT_PREFIX}{name.upper()}": _as_text(value) for name, value in values.items()}

    def with_simulator(self) -> "Settings":
        """Return these settings, with simulated hypervisors if no driver is configured."""
        return self if self.drivers else self.model_copy(update={"drivers": {"default": "simulator"}})


class SettingMissing(Exception):
    """A command needs a setting that is not set."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name} is not set: put it in the file given with --config, or in {ENVIRONMENT_PREFIX}{name.upper()}"
        )


def with_password(url: str, password: str) -> str:
    """Return ``url`` with a password for its user.

    Raises:
        ValueError: the URL contains a password already.
    """
    parts = urlsplit(url)
    user, _, hosts = parts.netloc.rpartition("@")
    if ":" in user:
        raise ValueError("both the setting and the URL contain a password: remove one of them")
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{hosts}"))


def _read_secret(name: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise ValueError(f"{name}{FILE_SUFFIX}: the file cannot be read: {error}") from error


def _url(listen: str) -> str:
    host, _, port = listen.rpartition(":")
    return f"http://{'127.0.0.1' if host in EVERY_ADDRESS else host}:{port}"


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def load_settings(config_file: Path | None = None, **overrides: Any) -> Settings:
    """Return the settings from the environment and from a TOML file, if one is given.

    Environment variables override the file, and ``overrides`` override both.

    Raises:
        pydantic.ValidationError: a value is not valid, or a name is unknown.
        FileNotFoundError: ``config_file`` does not exist.
    """
    if config_file is None:
        return Settings(**overrides)
    if not config_file.is_file():
        raise FileNotFoundError(f"No such configuration file: {config_file}")

    class SettingsFromFile(Settings):
        model_config = SettingsConfigDict(toml_file=config_file)

    return SettingsFromFile(**overrides)
