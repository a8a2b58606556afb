"""A server that says what it is told, for what the real one does not say yet."""

from __future__ import annotations

import http.server
import json
import threading
from typing import Any, Callable, Dict, List, Tuple

#: A status, headers and a body: JSON, or these bytes.
Answer = Tuple[int, Dict[str, str], Any]


class Answers:
    """Answers every request by a function."""

    def __init__(self, answer: Callable[[str], Answer]) -> None:
        self.paths: List[str] = []
        self.keys: List[str] = []
        self.headers: List[Dict[str, str]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.paths.append(self.path)
                outer.keys.append(self.headers.get("Authorization") or "")
                outer.headers.append(dict(self.headers.items()))
                status, headers, body = answer(self.path)
                payload = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(payload))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(payload)

            do_GET = do_DELETE = do_POST

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
