"""What is said of an error: our own sentence, else the first line, else what kind it is."""

import pytest

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.user_code import plain_message


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("first\nsecond"), "first"),
        (ValueError(), "ValueError"),
        (
            ValueError("Spark:\nTraceback (most recent call last):\n  File\n    open()\n\nOSError: full\n"),
            "OSError: full",
        ),
        (ValueError(f"Spark says:\n{PipelineError.__module__}.PipelineError: Our sentence."), "Our sentence."),
    ],
)
def test_an_error_in_a_line(error: Exception, said: str) -> None:
    assert plain_message(error) == said
