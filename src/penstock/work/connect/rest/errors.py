"""What goes wrong with a request: the status code and the words, or the worker to ask instead."""

from http import HTTPStatus


class RestError(Exception):
    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class ElsewhereError(Exception):
    """Another worker has to do it; None: it is not known which one at the moment."""

    def __init__(self, url: str | None) -> None:
        super().__init__(f"ask {url}")
        self.url = url


def not_found(message: str) -> RestError:
    return RestError(HTTPStatus.NOT_FOUND, message)


def bad_request(message: str) -> RestError:
    return RestError(HTTPStatus.BAD_REQUEST, message)


def conflict(message: str) -> RestError:
    """The state at the moment does not allow it."""
    return RestError(HTTPStatus.CONFLICT, message)
