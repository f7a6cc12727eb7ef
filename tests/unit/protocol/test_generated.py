"""The modules in protocol/messages are what the generator writes: nobody edits them by hand."""

import ast

from tools.generate_messages import TARGET, modules


def test_generated_modules_are_up_to_date() -> None:
    texts = modules()
    assert sorted(path.stem for path in TARGET.glob("*.py")) == sorted(texts)
    for name, text in texts.items():
        written = (TARGET / f"{name}.py").read_text()
        assert ast.dump(ast.parse(written)) == ast.dump(ast.parse(text)), f"{name}: run tools/generate_messages.py"
