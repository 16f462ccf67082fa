"""What stands before the page: it speaks to this machine alone, and lets the browser load from here alone."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

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


def guarded(inside: Application) -> Application:
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

        async def with_headers(message: MutableMapping[str, Any]) -> None:
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
