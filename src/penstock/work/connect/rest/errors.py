"""What goes wrong with a request: the status code and the words, or the worker that has to be asked instead."""

from http import HTTPStatus


class RestError(Exception):
    """The answer is this status with this message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class ElsewhereError(Exception):
    """Another worker has to do it; None: nobody knows which one at the moment."""

    def __init__(self, url: str | None) -> None:
        super().__init__(f"ask {url}")
        self.url = url


def not_found(message: str) -> RestError:
    """There is no such thing."""
    return RestError(HTTPStatus.NOT_FOUND, message)


def bad_request(message: str) -> RestError:
    """The request cannot be right."""
    return RestError(HTTPStatus.BAD_REQUEST, message)


def conflict(message: str) -> RestError:
    """Not now, or not beside what is there."""
    return RestError(HTTPStatus.CONFLICT, message)
