"""A broker that was fenced is let in again when it knows what others lead by now."""

from tests.unit.controller.cluster import active_controller, assigned, carry_out, heartbeat, successor, tick

SESSION_MS = 9000


def test_who_was_fenced_comes_back_when_it_knows_what_it_has_lost() -> None:
    """Otherwise it would be told that it may lead, and lead what another one leads."""
    controller = active_controller(1, 2)
    carry_out(controller, assigned("pair", [1, 2]))
    known = controller.state.next_offset - 1
    carry_out(controller, heartbeat(controller, 2), SESSION_MS - 1)
    tick(controller, SESSION_MS)
    lost = controller.state.next_offset - 1
    assert controller.image.brokers[1].fenced
    for offset in (known, lost - 1):
        reply = carry_out(controller, heartbeat(controller, 1, current_metadata_offset=offset), SESSION_MS)
        assert reply.is_fenced
    assert not carry_out(controller, heartbeat(controller, 1, current_metadata_offset=lost), SESSION_MS).is_fenced


def test_a_new_controller_lets_a_fenced_broker_in_when_it_knows_all_that_was_decided_before() -> None:
    controller = active_controller(1, 2)
    carry_out(controller, assigned("pair", [1, 2]))
    tick(controller, SESSION_MS)
    controller.image.applied_to(controller.state.next_offset - 1)
    after = successor(controller)
    known = controller.state.next_offset - 1
    assert carry_out(after, heartbeat(after, 1, current_metadata_offset=known - 1)).is_fenced
    assert not carry_out(after, heartbeat(after, 1, current_metadata_offset=known)).is_fenced
