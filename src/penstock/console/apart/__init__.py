"""What looks into values by expressions and schemas of strangers: a process apart, which may be killed at any time.

`__main__.py` is the process, `expressions.py` and `decoding.py` are what it does; the console's side is `reader.py`.
"""
