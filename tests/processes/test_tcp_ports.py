"""Guests answer by TCP if something listens at their port, however many are asked."""

import socket

from bulkdeploy.processes.tcp_ports import AT_ONCE, reachable_ports


def test_each_port_is_reported_in_order() -> None:
    """Open and closed ports, addresses that are none, and guests without an address are told apart."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as open_port, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nothing listens there
        ports: list[tuple[str | None, int | None]] = [
            ("127.0.0.1", open_port.getsockname()[1]),
            ("127.0.0.1", closed.getsockname()[1]),
            (None, 22),
            ("127.0.0.1", None),
        ]
        found = reachable_ports(ports * (AT_ONCE // 2), timeout_s=30)
    assert found == [True, False, False, False] * (AT_ONCE // 2)
    assert reachable_ports([], timeout_s=1) == []
