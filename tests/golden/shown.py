"""Messages as transcripts show them: those fields that are not as they are by default."""

from penstock.protocol.schema import Message


def said(message: Message) -> str:
    return f"{type(message).__name__}{fields(message)}"


def fields(message: Message) -> str:
    told = {name: getattr(message, name) for name in type(message).__fields__}
    usual = {name: it.new_default() for name, it in type(message).__fields__.items()}
    return f"({', '.join(f'{name}={_said(value)}' for name, value in told.items() if value != usual[name])})"


def _said(value: object) -> str:
    if isinstance(value, Message):
        return fields(value)
    return f"[{', '.join(map(_said, value))}]" if isinstance(value, list) else str(value)
