"""What the console refuses, with the status of HTTP that says so."""

from http import HTTPStatus


class ConsoleError(Exception):
    """Its words are for the person at the browser: cause, and cure where there is one."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def bad_request(message: str) -> ConsoleError:
    return ConsoleError(HTTPStatus.BAD_REQUEST, message)
