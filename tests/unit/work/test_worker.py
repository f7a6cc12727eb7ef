from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.work.connect.distributed.settings import KEYS
from penstock.work.effects import Abandon, Beat, Complain, Effect, Join, Leave, Start, Stop, Sync
from penstock.work.incremental import Step, Waiting
from penstock.work.messages import Assignment, Metadata
from penstock.work.plan import Member, Plan, Task, even
from penstock.work.worker import NEVER, Refusal, State, Worker, WorkerSettings

TASKS = (Task("one"), Task("two"))
COOPERATIVE = WorkerSettings(name="a", planner=even, session_timeout_ms=10_000)
EAGER = COOPERATIVE.replace(cooperative=False)


def decided(step: Step | Plan) -> Assignment:
    return Assignment("a", "", step if isinstance(step, Step) else Step(step))


def member(settings: WorkerSettings, step: Step | Plan) -> Worker:
    """One that has joined as m1 at 0 ms and has been told this."""
    worker = Worker(settings)
    worker.start(0)
    worker.joined(1, "m1", 1, None, 0)
    worker.synced(1, decided(step), 0)
    return worker


def join(attempt: int, member_id: str, *owned: str) -> Join:
    return Join(attempt, member_id, Metadata(Member("a", 0, owned)))


def test_a_leader_decides_for_all() -> None:
    worker = Worker(COOPERATIVE)
    worker.tasks_changed(TASKS, 0)
    assert worker.start(0) == [join(1, "")]
    plan = decided({"a": ("one",), "b": ("two",)})
    assert worker.joined(1, "m1", 1, {"m1": Member("a"), "m2": Member("b")}, 5) == [
        Sync(1, "m1", 1, {"m1": plan, "m2": plan})
    ]
    assert worker.synced(1, plan, 10) == [Start(("one",))]
    assert worker.state is State.MEMBER


def test_a_follower_asks_for_its_own() -> None:
    worker = Worker(COOPERATIVE)
    worker.start(0)
    assert worker.joined(1, "m1", 1, None, 5) == [Sync(1, "m1", 1)]


def test_of_two_with_one_name_the_earlier_gets_nothing() -> None:
    worker = Worker(COOPERATIVE)
    worker.tasks_changed(TASKS, 0)
    worker.start(0)
    members = {"old": Member("b", owned=("two",)), "m1": Member("a"), "new": Member("b")}
    (sync,) = worker.joined(1, "m1", 1, members, 5)
    assert isinstance(sync, Sync)
    assert sync.decided["m1"] == sync.decided["new"] == decided(Step({"b": ("one",), "a": ()}, (), ("two",)))
    assert sync.decided["old"] == decided(Step({}, (), ("two",)))


def test_the_death_of_one_broker_costs_no_task() -> None:
    """Its last answer was to a heartbeat of an interval ago; then it has to be fenced, and its successor to load."""
    settings = WorkerSettings(name="a", planner=even)
    fenced_ms = BrokerConfig.embedded({"log.dirs": "/data"}).broker_session_timeout_ms
    takes_over_ms = settings.heartbeat_interval_ms + fenced_ms + 5_000
    assert {key.name: key.default for key in KEYS}["session.timeout.ms"] == settings.session_timeout_ms
    worker = member(settings, {"a": ("one",)})
    effects = [
        effect for now_ms in range(0, takes_over_ms, 100) if now_ms >= worker.due_ms for effect in worker.tick(now_ms)
    ]
    assert {type(effect) for effect in effects} == {Beat}


def test_an_answer_to_an_earlier_attempt_is_nothing() -> None:
    worker = member(COOPERATIVE, {"a": ("one",)})
    worker.rebalance(100)
    assert worker.joined(1, "m1", 2, None, 200) == []
    assert worker.synced(1, decided({"a": ()}), 200) == []
    assert worker.refused(1, Refusal.LOST, 200) == []


def test_cooperative_tasks_run_on_while_the_group_rebalances() -> None:
    worker = member(COOPERATIVE, {"a": ("one", "two")})
    assert worker.rebalance(100) == [join(2, "m1", "one", "two")]
    worker.joined(2, "m1", 2, None, 200)
    assert worker.synced(2, decided({"a": ("one", "two")}), 300) == []


def test_what_is_taken_away_ends_and_is_given_up_by_another_join() -> None:
    worker = member(COOPERATIVE, {"a": ("one", "two")})
    worker.rebalance(100)
    worker.joined(2, "m1", 2, None, 200)
    assert worker.synced(2, decided(Step({"a": ("one",)}, (), ("two",))), 300) == [Stop(("two",))]
    assert worker.ended("two", 400) == [join(3, "m1", "one")]


def test_what_nobody_waits_for_ends_without_another_join() -> None:
    worker = member(COOPERATIVE, {"a": ("one", "two")})
    worker.rebalance(100)
    worker.joined(2, "m1", 2, None, 200)
    worker.synced(2, decided({"a": ("one",)}), 300)
    assert worker.ended("two", 400) == []


def test_what_it_is_given_back_while_it_ends_begins_again_after_that() -> None:
    worker = member(COOPERATIVE, {"a": ("one",)})
    worker.rebalance(100)
    worker.joined(2, "m1", 2, None, 200)
    worker.synced(2, decided(Step({"a": ()}, (), ("one",))), 300)
    worker.rebalance(400)
    worker.joined(3, "m1", 3, None, 500)
    assert worker.synced(3, decided({"a": ("one",)}), 600) == []
    assert worker.ended("one", 700) == [Start(("one",))]


def test_a_task_that_ends_when_the_session_is_over_does_not_begin_again() -> None:
    """Others may run it already, though the timer that abandons all tasks has not rung yet."""
    for ends_ms, started in ((9_999, [Start(("one",))]), (10_000, [])):
        worker = member(COOPERATIVE, {"a": ("one",)})
        assert worker.ended("one", ends_ms) == started


def test_eager_tasks_end_before_it_joins() -> None:
    worker = member(EAGER, {"a": ("one", "two")})
    assert worker.rebalance(100) == [Stop(("one", "two"))]
    assert worker.ended("one", 200) == []
    assert worker.ended("two", 300) == [join(2, "m1")]


def test_heartbeats_go_out_and_their_answers_count_from_when_they_were_sent() -> None:
    worker = member(COOPERATIVE, {"a": ("one",)})
    assert worker.tick(0) == [Beat("m1", 1, 0)]
    assert worker.due_ms == 3_000
    (beat,) = worker.tick(3_000)
    assert isinstance(beat, Beat)
    worker.beaten(beat, None, 9_999)
    assert worker.tick(12_999)[0] == Beat("m1", 1, 12_999)
    assert worker.tick(13_000) == [Abandon(("one",)), join(2, "", "one")]


def test_a_task_that_has_ended_starts_again_only_within_the_session() -> None:
    worker = member(COOPERATIVE, {"a": ("one",)})
    assert worker.ended("one", 9_999) == [Start(("one",))]
    assert worker.ended("one", 10_000) == []


def test_an_assignment_that_is_as_old_as_a_session_is_not_obeyed() -> None:
    worker = Worker(COOPERATIVE)
    worker.start(0)
    worker.joined(1, "m1", 1, None, 1_000)
    assert worker.synced(1, decided({"a": ("one",)}), 11_000) == [join(2, "")]


def test_a_worker_that_is_not_known_abandons_and_joins_as_somebody_new() -> None:
    worker = member(COOPERATIVE, {"a": ("one",)})
    assert worker.beaten(Beat("m1", 1, 0), Refusal.LOST, 100) == [Abandon(("one",)), join(2, "", "one")]
    assert worker.due_ms == NEVER


def test_a_heartbeat_of_an_earlier_generation_says_nothing() -> None:
    worker = member(COOPERATIVE, {"a": ("one",)})
    worker.rebalance(100)
    worker.joined(2, "m1", 2, None, 200)
    worker.synced(2, decided({"a": ("one",)}), 300)
    assert worker.beaten(Beat("m1", 1, 0), Refusal.LOST, 400) == []
    assert worker.beaten(Beat("m1", 1, 0), Refusal.REBALANCE, 400) == []


def leader(settings: WorkerSettings = COOPERATIVE, **waiting: int) -> Worker:
    worker = Worker(settings)
    worker.tasks_changed(TASKS, 0)
    worker.start(0)
    worker.joined(1, "m1", 1, {"m1": Member("a")}, 0)
    step = Step({"a": ("one",)}, tuple(Waiting(task, "b", left_ms) for task, left_ms in waiting.items()))
    worker.synced(1, decided(step), 0)
    return worker


def test_the_leader_begins_a_generation_when_there_is_more_to_do() -> None:
    worker = leader()
    assert worker.tasks_changed(TASKS, 100) == []
    assert worker.tasks_changed((*TASKS, Task("three")), 100) == [join(2, "m1", "one")]


def test_the_leader_knows_what_may_still_run() -> None:
    worker = leader()
    assert worker.in_hand == frozenset(("one",))
    worker.tasks_changed((), 100)
    assert worker.in_hand is None
    (sync,) = worker.joined(2, "m1", 2, {"m1": Member("a", owned=("one",))}, 200)
    assert isinstance(sync, Sync)
    assert worker.synced(2, sync.decided["m1"], 300) == [Stop(("one",))]
    assert worker.in_hand == frozenset(("one",))
    assert worker.ended("one", 400) == [join(3, "m1")]
    assert worker.in_hand is None
    (sync,) = worker.joined(3, "m1", 3, {"m1": Member("a")}, 500)
    assert isinstance(sync, Sync)
    worker.synced(3, sync.decided["m1"], 600)
    assert worker.in_hand == frozenset()


def test_an_eager_leader_ends_its_tasks_for_that_first() -> None:
    assert leader(EAGER).tasks_changed((*TASKS, Task("three")), 100) == [Stop(("one",))]


def test_a_follower_leaves_that_to_the_leader() -> None:
    assert member(COOPERATIVE, {"a": ("one",)}).tasks_changed(TASKS, 100) == []


def test_what_changed_while_it_joined_is_seen_to_afterwards() -> None:
    worker = Worker(COOPERATIVE)
    worker.start(0)
    worker.joined(1, "m1", 1, {"m1": Member("a")}, 0)
    worker.tasks_changed(TASKS, 50)
    assert worker.synced(1, decided({"a": ()}), 100) == [join(2, "m1")]


def test_the_leader_acts_when_a_worker_has_been_away_for_too_long() -> None:
    worker = leader(two=7_000)
    worker.tick(6_000)
    worker.beaten(Beat("m1", 1, 6_000), None, 6_001)
    assert worker.due_ms == 7_000
    assert worker.tick(7_000) == [join(2, "m1", "one")]
    (sync,) = worker.joined(2, "m1", 2, {"m1": Member("a", owned=("one",))}, 7_100)
    assert isinstance(sync, Sync)
    assert sync.decided["m1"].step == Step({"a": ("one", "two")})


def test_leaving_ends_everything_first() -> None:
    worker = member(COOPERATIVE, {"a": ("one",)})
    assert worker.leave(100) == [Stop(("one",))]
    assert worker.rebalance(150) == []
    assert worker.ended("one", 200) == [Leave("m1")]
    assert worker.state is State.OUTSIDE


def test_a_plan_that_fails_does_not_stop_the_group() -> None:
    def fails(tasks: object, members: object) -> Plan:
        raise ZeroDivisionError("in the plan")

    worker = Worker(COOPERATIVE.replace(planner=fails))
    worker.tasks_changed(TASKS, 0)
    worker.start(0)
    complaint, sync, *rest = worker.joined(1, "m1", 1, {"m1": Member("a")}, 5)
    assert isinstance(complaint, Complain)
    assert "in the plan" in complaint.reason
    assert isinstance(sync, Sync)
    assert sync.decided["m1"].step.plan == {"a": ("one", "two")}
    assert rest == list[Effect]()


def test_a_leader_complains_of_what_nobody_has_room_for() -> None:
    worker = Worker(COOPERATIVE)
    worker.tasks_changed((Task("one", cores=2), Task("two", cores=9), Task("three")), 0)
    worker.start(0)
    complaint, sync = worker.joined(1, "m1", 1, {"m1": Member("a", cores=4)}, 5)
    assert complaint == Complain("no worker has room (cores, memory) for two")
    assert isinstance(sync, Sync)
    assert sync.decided["m1"].step.plan == {"a": ("one", "three")}
