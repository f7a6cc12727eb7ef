"""Ports that are reserved for nodes which start later."""

import socket

import pytest

from penstock.testing.ports import LOOPBACK, MAY_HOLD, ReservedPort


def test_nobody_else_gets_it_and_who_knows_of_it_may_listen() -> None:
    reserved = ReservedPort()
    try:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((LOOPBACK, reserved.port), timeout=5)
        with socket.socket() as plain, pytest.raises(OSError, match="in use"):
            plain.bind((LOOPBACK, reserved.port))
        reserved.make_way()
        with socket.create_server((LOOPBACK, reserved.port)) as server:
            socket.create_connection(server.getsockname()[:2], timeout=5).close()
    finally:
        reserved.release()


@pytest.mark.skipif(not MAY_HOLD, reason="only Linux lets a port be held while another socket listens on it")
def test_it_is_held_over_the_restart_of_a_node() -> None:
    reserved = ReservedPort()
    try:
        for _ in range(3):
            reserved.make_way()
            socket.create_server((LOOPBACK, reserved.port)).close()
        others = [ReservedPort() for _ in range(200)]
        assert reserved.port not in [other.port for other in others]
        for other in others:
            other.release()
    finally:
        reserved.release()


def test_a_port_that_is_taken_cannot_be_reserved() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken, pytest.raises(OSError, match="in use"):
        ReservedPort(taken.getsockname()[1])
