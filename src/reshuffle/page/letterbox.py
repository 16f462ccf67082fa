"""Where files are sent: an address per session that nobody else knows, and no other way to send anything."""

import secrets
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from reshuffle.cli.complaints import InputError

Keep: TypeAlias = Callable[[Request], Awaitable[str]]
"""Takes what is sent, and returns the name it is kept under; raises InputError where it is refused."""
_PREFIX = "/upload/"


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
