"""A proxy on loopback in front of a catalog's server, which can lose a commit on its way."""

from __future__ import annotations

import socket
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from urllib.parse import urlsplit

#: What a request that commits contains: for a REST catalog, for Glue, and for a Hive metastore.
_COMMITS = (
    b"/tables/sessions HTTP",
    b"AWSGlue.CreateTable",
    b"AWSGlue.UpdateTable",
    b"alter_table_with_environment",
)


class Proxy(socketserver.ThreadingTCPServer):
    """Passes everything on, except commits as long as there is trouble.

    Attributes:
        address: the server's address, as it is reached through the proxy.
        losing: which part of a commit is lost, "request" or "answer"; None for nothing.
        answer: what a commit gets as its answer, without the server seeing it.
        times: how many more commits there is trouble for; None for all.
    """

    daemon_threads = True

    def __init__(self, server: str) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        parts = urlsplit(server)
        assert parts.hostname is not None
        assert parts.port is not None
        self.server = (parts.hostname, parts.port)
        self.address = f"{parts.scheme}://127.0.0.1:{self.server_address[1]}"
        self.losing: str | None = None
        self.answer: bytes | None = None
        self.times: int | None = None

    def takes(self, request: bytes) -> bool:
        """Whether this is a commit that there is trouble for."""
        trouble = self.losing is not None or self.answer is not None
        if not trouble or self.times == 0 or not any(commit in request for commit in _COMMITS):
            return False
        if request.startswith((b"GET", b"HEAD")):
            return False
        self.times = None if self.times is None else self.times - 1
        return True


class _Connection(socketserver.BaseRequestHandler):
    server: Proxy

    def handle(self) -> None:
        with socket.create_connection(self.server.server) as behind:
            self.behind, self.lost = behind, False
            back = Thread(target=self._pass_back, daemon=True)
            back.start()
            with suppress(OSError):
                self._pass_on()
            for connection in (behind, self.request):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            back.join()

    def _pass_on(self) -> None:
        while request := self.request.recv(1 << 16):
            if self.server.takes(request):
                if self.server.answer is not None:
                    self._refuse(self.server.answer)
                    return
                if self.server.losing == "request":
                    return
                self.lost = True
            self.behind.sendall(request)

    def _pass_back(self) -> None:
        with suppress(OSError):
            while (answer := self.behind.recv(1 << 16)) and not self.lost:
                self.request.sendall(answer)
            self.request.shutdown(socket.SHUT_RDWR)

    def _refuse(self, answer: bytes) -> None:
        head = f"HTTP/1.1 403 Forbidden\r\nContent-Length: {len(answer)}\r\n"
        self.request.sendall(f"{head}Connection: close\r\n\r\n".encode() + answer)
        self.request.shutdown(socket.SHUT_WR)
        # If part of the request is left unread, the answer does not get through.
        while self.request.recv(1 << 16):
            continue


@contextmanager
def before(server: str) -> Iterator[Proxy]:
    """A proxy in front of the server at this address."""
    with Proxy(server) as proxy:
        thread = Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
