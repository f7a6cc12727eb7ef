"""What holds for all tests: property tests never fail because the machine is busy."""

from hypothesis import HealthCheck, settings

settings.register_profile("penstock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("penstock")
