import pytest

from penstock.protocol.checksum import EXTENSION, crc32c, load

CHECK = 0xE3069283
"""What the catalogues of checksums give for the nine digits."""


@pytest.mark.parametrize("extension", [EXTENSION, "an extension that is not there"])
def test_it_is_castagnolis_from_the_extension_or_from_the_package(extension: str) -> None:
    function = load(extension)
    assert function(b"123456789") == CHECK
    assert function(memoryview(b"6789"), function(bytearray(b"12345"))) == CHECK


def test_what_is_used_is_the_extension() -> None:
    assert getattr(crc32c, "__self__").__name__ == EXTENSION  # noqa: B009 - a builtin knows its module
