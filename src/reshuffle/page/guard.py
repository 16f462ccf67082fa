"""What stands before the page: it speaks to this machine alone, and takes files only where it asked for them."""

import secrets
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reshuffle.cli.console import InputError

NAMES = ("127.0.0.1", "localhost")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self' ws://127.0.0.1:* ws://localhost:*; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)

Keep: TypeAlias = Callable[[Request], Awaitable[str]]
"""Takes what is sent, and returns the name it is kept under; raises InputError where it is refused."""
_PREFIX = "/upload/"


def guarded(inside: ASGIApp) -> ASGIApp:
    """The same application, for those alone who asked for it under a name of this machine.

    A page from elsewhere, open in the same browser, must not talk to this one, nor look like it by a name of its
    own that leads here.
    """

    async def outside(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await inside(scope, receive, send)
            return
        if not is_from_here(dict(scope["headers"])):
            await _refuse(scope, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        await inside(scope, receive, with_headers)

    return outside


def is_from_here(headers: dict[bytes, bytes]) -> bool:
    """Whether host and origin are this machine.

    >>> is_from_here({b"host": b"127.0.0.1:8000"}), is_from_here({b"host": b"evil.example"})
    (True, False)
    >>> is_from_here({b"host": b"localhost:8000", b"origin": b"http://evil.example"})
    False
    """
    host = headers.get(b"host", b"").decode("latin-1")
    origin = headers.get(b"origin")
    return host.partition(":")[0] in NAMES and (
        origin is None or origin.decode("latin-1") == f"http://{host}"
    )


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"This page is for this machine alone."})


class Letterbox:
    """The open addresses, and the application before which they stand."""

    def __init__(self) -> None:
        self._slots: dict[str, Keep] = {}

    def open(self, keep: Keep) -> str:
        """A new address, as a page has it."""
        token = secrets.token_urlsafe(24)
        self._slots[token] = keep
        return f"{_PREFIX[1:]}{token}"

    def close(self, address: str) -> None:
        """Forget an address."""
        self._slots.pop(address.removeprefix(_PREFIX[1:]), None)

    def before(self, inside: ASGIApp) -> ASGIApp:
        """The application, none of whose own ways to take files is left open: they have no bounds."""

        async def outside(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
                await inside(scope, receive, send)
                return
            response = await self._taken(Request(scope, receive))
            await response(scope, receive, send)

        return outside

    async def _taken(self, request: Request) -> Response:
        is_letter = request.scope["method"] == "POST"
        keep = self._slots.get(request.url.path.removeprefix(_PREFIX)) if is_letter else None
        if keep is None:
            return PlainTextResponse("Nobody takes this here.", 404)
        try:
            return JSONResponse({"name": await keep(request)})
        except InputError as error:
            return JSONResponse({"refused": str(error)})
