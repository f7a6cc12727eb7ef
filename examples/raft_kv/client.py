"""The client: it finds the leader, tries again when a server or the way to it fails, and has one session.

A set whose answer is lost may have been applied, so it is tried again with the same sequence number: the store applies
it once. What still has no answer in the end is reported with its outcome unknown.
"""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from examples.raft_kv.messages import (
    BY_REQUEST,
    MAX_FRAME_BYTES,
    RETRIABLE,
    UNKNOWN_SESSION,
    GetRequest,
    GetResponse,
    OpenRequest,
    OpenResponse,
    Request,
    Response,
    SetRequest,
    SetResponse,
    decode_response,
    encode_request,
)
from penstock.client.errors import reason
from penstock.protocol.address import Address
from penstock.protocol.errors import DecodeError, ErrorCode

ResponseT = TypeVar("ResponseT", OpenResponse, SetResponse, GetResponse)


class StoreError(Exception):
    """The store refused a request; it was not carried out."""


class OutcomeUnknownError(StoreError):
    """Whether the request was carried out is unknown: no leader answered in time, or the session was forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How patient a client is."""

    timeout_s: float = 30.0
    """For a request with all its tries."""
    attempt_timeout_s: float = 2.0
    pause_s: float = 0.05
    """Between two tries."""


class Link:
    """One connection to one server, with one request under way at most."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)

    async def ask(self, request: Request) -> Response:
        """Send a request and wait for its answer. Raises OSError, EOFError and DecodeError."""
        number = next(self._numbers)
        self._writer.write(encode_request(request, number))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        if size > MAX_FRAME_BYTES:
            raise DecodeError(f"a response of {size} bytes")
        answered, response = decode_response(BY_REQUEST[type(request)], await self._reader.readexactly(size))
        if answered != number:
            raise DecodeError(f"the answer to {answered} where {number} was due")
        return response

    def close(self) -> None:
        """End the connection; an answer that is still to come is lost."""
        self._writer.transport.abort()


class KvClient:
    """Use it with `async with`. One request at a time; those that come together wait for each other."""

    def __init__(self, addresses: Sequence[Address], options: ClientOptions | None = None) -> None:
        self._addresses = list(addresses)
        self._options = options or ClientOptions()
        self._turn = asyncio.Lock()
        self._session: int | None = None
        self._sequences = itertools.count(1)
        self._link: Link | None = None
        self._next_address = 0
        self._hint: Address | None = None

    async def __aenter__(self) -> "KvClient":
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.disconnect()

    async def set(self, key: bytes, value: bytes) -> SetResponse:
        """Give the key a value; when this returns, a majority of servers has it on disk. Raises StoreError."""
        async with self._turn:
            if self._session is None:
                self._session = (await self._ask(OpenRequest(), OpenResponse)).session
            request = SetRequest(session=self._session, sequence=next(self._sequences), key=key, value=value)
            return await self._ask(request, SetResponse)

    async def get(self, key: bytes) -> GetResponse:
        """The value that the key has now, as if there were one server. Raises StoreError."""
        async with self._turn:
            return await self._ask(GetRequest(key=key), GetResponse)

    def disconnect(self) -> None:
        """Cut the connection; the next request makes a new one."""
        if self._link is not None:
            self._link.close()
            self._link = None

    async def _ask(self, request: Request, kind: type[ResponseT]) -> ResponseT:
        """Ask server after server until the leader has answered."""
        last = "nobody answered"
        try:
            async with asyncio.timeout(self._options.timeout_s):
                while True:
                    try:
                        response = await self._try(request)
                    except TimeoutError:
                        last = f"no answer within {self._options.attempt_timeout_s:g} s"
                        self.disconnect()
                    except (OSError, EOFError, DecodeError) as error:
                        last = reason(error)
                        self.disconnect()
                    else:
                        if response.error_code == ErrorCode.NONE:
                            return cast("ResponseT", response)
                        last = self._refused(response)
                    await asyncio.sleep(self._options.pause_s)
        except TimeoutError:
            self.disconnect()
            seconds = self._options.timeout_s
            raise OutcomeUnknownError(f"no leader answered within {seconds:g} s, the last try: {last}") from None

    async def _try(self, request: Request) -> Response:
        async with asyncio.timeout(self._options.attempt_timeout_s):
            if self._link is None:
                address = self._hint or self._addresses[self._next_address]
                self._hint = None
                self._next_address = (self._next_address + 1) % len(self._addresses)
                self._link = Link(*await asyncio.open_connection(address.host, address.port))
            return await self._link.ask(request)

    def _refused(self, response: Response) -> str:
        """Make ready for the next try; the name of the error. Raises StoreError where there is no use in one."""
        code = ErrorCode(response.error_code)
        if code is UNKNOWN_SESSION:
            self._session = None
            raise OutcomeUnknownError("the store has forgotten this session: too many others were busy meanwhile")
        if code not in RETRIABLE:
            raise StoreError(f"the store refuses the request: {code.name}")
        self.disconnect()
        if response.leader.id >= 0:
            self._hint = Address(response.leader.host, response.leader.port)
        return code.name
