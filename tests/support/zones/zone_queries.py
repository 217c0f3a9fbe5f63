"""Names to ids of the small zone, and questions that tests ask its database."""

from collections import Counter
from typing import Any

from sqlalchemy import Engine, text


class Zone:
    """The loaded small zone."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def id_of(self, table: str, name: str) -> str:
        """The uuid of a live row by its name."""
        return str(self.scalar(f"SELECT uuid FROM {table} WHERE name = :name AND removed IS NULL", name=name))

    def scalar(self, sql: str, **parameters: object) -> Any:
        """One value."""
        with self.engine.connect() as connection:
            return connection.execute(text(sql), parameters).scalar_one()

    def rows(self, sql: str, **parameters: object) -> list[Any]:
        """All rows."""
        with self.engine.connect() as connection:
            return list(connection.execute(text(sql), parameters))

    def change(self, sql: str, **parameters: object) -> None:
        """Change the zone behind the API's back."""
        with self.engine.begin() as connection:
            connection.execute(text(sql), parameters)

    def bulk_parameters(self, count: int, **more: object) -> dict[str, object]:
        """What a bulk call for account acme needs, and ``more``; None takes a parameter away."""
        parameters: dict[str, object] = {
            "zoneid": self.id_of("zones", "small"),
            "serviceofferingid": self.id_of("service_offerings", "Small"),
            "templateid": self.id_of("templates", "Debian 12"),
            "virtualmachinecount": count,
            "account": "acme",
            "domainid": self.id_of("domains", "acme"),
            **more,
        }
        return {name: value for name, value in parameters.items() if value is not None}

    def vms_per_cluster(self) -> Counter[str]:
        """Claimed or running VMs by the name of their cluster."""
        rows = self.rows(
            "SELECT c.name, count(v.id) FROM clusters c LEFT JOIN virtual_machines v"
            " ON v.cluster_id = c.id AND v.host_id IS NOT NULL WHERE c.removed IS NULL GROUP BY c.name"
        )
        return Counter(dict(rows))
