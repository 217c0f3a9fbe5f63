"""What operators ask of every call beside good credentials (reference section 1.7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from bulkdeploy.domain.configuration import BY_NAME, Scope

THROTTLING = "api.throttling.enabled"
POST_WITH_TIMESTAMP = "enforce.post.requests.and.timestamps"
CHECK_SOURCES = "api.source.cidr.checks.enabled"
SOURCES = "api.allowed.source.cidr.list"
NAMES = (THROTTLING, POST_WITH_TIMESTAMP, CHECK_SOURCES, SOURCES)

LONGEST_EXPIRY_MINUTES = 15
"""How far ahead ``expires`` may lie where timestamps are enforced: whoever records a call has no longer."""


@dataclass(frozen=True, slots=True)
class CallGuards:
    """What holds for the calls of one account at the moment.

    Attributes:
        throttled: they are counted.
        post_with_timestamp: what changes something comes by POST and, if signed, with a near ``expires``.
        sources: CIDRs separated by commas from which they may come; None: from anywhere.
    """

    throttled: bool
    post_with_timestamp: bool
    sources: str | None

    @classmethod
    def of(cls, values: Mapping[str, str]) -> "CallGuards":
        """From values by scope and name, as ``Account api.allowed.source.cidr.list``; others have their default."""

        def value(name: str) -> str:
            default = BY_NAME[name].default
            return values.get(f"{Scope.ACCOUNT.value} {name}", values.get(f"{Scope.GLOBAL.value} {name}", default))

        sources = value(SOURCES)
        checked = value(CHECK_SOURCES) == "true" and sources != BY_NAME[SOURCES].default
        return cls(value(THROTTLING) == "true", value(POST_WITH_TIMESTAMP) == "true", sources if checked else None)

    def admits(self, address: str) -> bool:
        """Whether a call from this IP address may be answered; one from an address that cannot be read may not."""
        if self.sources is None:
            return True
        try:
            source = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(source, "ipv4_mapped", None)
        networks = (ip_network(part.strip(), strict=False) for part in self.sources.split(",") if part.strip())
        return any((mapped or source) in network for network in networks)
