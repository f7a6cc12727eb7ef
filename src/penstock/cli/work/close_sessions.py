"""`python -m penstock.cli.work.close_sessions`: closes sessions at servers of Spark Connect.

On the standard input is a list of [address, session] as JSON. For each {"event": "closed", "session": …} is printed,
with an "error" where it could not be closed.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from penstock.cli.terminal.lines import printable_json, say
from penstock.pipeline.errors import NO_ANSWER, OUT_OF_REACH
from penstock.pipeline.running.server_session import close
from penstock.pipeline.spec.user_code import first_line

PATIENCE_S: Final = 6.0


def main() -> None:
    sessions = json.load(sys.stdin)
    with ThreadPoolExecutor() as threads:
        for said in threads.map(closed, *zip(*sessions, strict=True)):
            say(printable_json(said))


def closed(server: str, session: str) -> dict[str, str]:
    said = {"event": "closed", "session": session}
    try:
        close(server, session, PATIENCE_S)
    except Exception as error:  # whatever it is, the others are closed all the same
        text = str(error)
        return said | {"error": NO_ANSWER if OUT_OF_REACH in text else first_line(text) or type(error).__name__}
    return said


if __name__ == "__main__":
    main()
