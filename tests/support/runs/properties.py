"""How many examples a property gets: by Hypothesis's own profile, ``--hypothesis-profile=NAME``."""

from hypothesis import HealthCheck, settings

ALL = 100
PROFILES = {"quick": ALL // 5, "usual": ALL // 3, "longer": ALL * 3, "thorough": ALL * 10}
"""Examples of a property that asks for 100, for ``make test-fast``, ``test``, integration and ``test-thorough``."""

SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)


def register_profiles() -> None:
    """Make the profiles known to Hypothesis and load the usual one; the command line may name another later."""
    for name, examples in PROFILES.items():
        settings.register_profile(name, max_examples=examples, deadline=None, suppress_health_check=SLOW_IS_FINE)
    settings.load_profile("usual")


def examples(number: int, *, suppress: tuple[HealthCheck, ...] = SLOW_IS_FINE) -> settings:
    """As large a part or multiple of so many examples as the profile says; never fewer than two."""
    scaled = max(2, number * settings().max_examples // ALL)
    return settings(max_examples=scaled, deadline=None, suppress_health_check=suppress)


def is_thorough() -> bool:
    """Whether the profile is one of those for which time is no matter."""
    return settings().max_examples > ALL
