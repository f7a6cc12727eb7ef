"""Modules of the standard library as one module of the project is to see them."""

from types import ModuleType, SimpleNamespace


def stand_in(module: ModuleType, **other: object) -> SimpleNamespace:
    """`module` but for what is given. Put it in the place of the name by which the module under test knows it:
    `monkeypatch.setattr(moves, "asyncio", stand_in(asyncio, sleep=sleep))`. What is changed in a module of the standard
    library itself meets whoever uses it meanwhile, in threads that other tests have left as well.
    """
    return SimpleNamespace(**{**vars(module), **other})
