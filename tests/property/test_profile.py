"""All property tests run under one profile, in which no wall time counts."""

from hypothesis import HealthCheck, given, settings, strategies


@given(strategies.none())
def test_a_property_test_measures_no_wall_time(nothing: None) -> None:
    assert nothing is None
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
