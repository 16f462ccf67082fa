"""Checks before a request reaches Shiny: it comes from a page of this server, and files are bounded."""

from collections import Counter

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NAMES = ("127.0.0.1", "localhost")
LARGEST_FILE = 20 << 20
"""Bytes."""
MOST_FILES = 50
"""Files that one session may send; each replaces the one before it."""
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


def guarded(inside: ASGIApp) -> ASGIApp:
    """Return the application, for those alone who asked for it under a name of this machine.

    A page from elsewhere, open in the same browser, must not talk to this one, nor look like it by a name of its
    own that leads here. Of all requests that send something, only files of a session are let through: Shiny itself
    takes files of any size and number.
    """
    sent: Counter[str] = Counter()

    async def outside(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await inside(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if not is_from_here(headers):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await PlainTextResponse("This page is for this machine alone.", 403)(scope, receive, send)
            return
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            status, reason = _file_status(scope["method"], scope["path"], headers, sent)
            if status != 200:
                await PlainTextResponse(reason, status)(scope, receive, send)
                return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        await inside(scope, receive, with_headers)

    return outside


def is_from_here(headers: dict[bytes, bytes]) -> bool:
    """Return whether host and origin are this machine.

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


def _file_status(
    method: str, path: str, headers: dict[bytes, bytes], sent: "Counter[str]"
) -> tuple[int, str]:
    """Return 200 for a file that may be sent, else the status and the reason; files are counted in `sent`."""
    match method, path.strip("/").split("/"):
        case "POST", ["session", session, "upload", _]:
            # The server reads no more than this many bytes of a request that states its length.
            length = headers.get(b"content-length", b"")
            if not length.isdigit():
                return 411, "A file must come with its length."
            if int(length) > LARGEST_FILE:
                return 413, f"A file must have at most {LARGEST_FILE >> 20} MB."
            sent[session] += 1
            if sent[session] > MOST_FILES:
                return 429, f"One session takes at most {MOST_FILES} files; reload the page."
            return 200, ""
        case _:
            return 404, "There is nothing to send anything to."
