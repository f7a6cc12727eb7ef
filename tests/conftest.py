"""How property tests draw: the same each time, so that a run fails by what was changed, and never by a busy machine.

`make soak` draws anew, and more.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("same", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("soak", settings.get_profile("same"), derandomize=False, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
