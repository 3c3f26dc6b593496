"""A model hub on the loopback interface: the answers that `create_repo` and `upload_folder` need."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Hub:
    """What was asked of it: `repos` made, `files` by repository and path. `refuses` are parts of paths."""

    def __init__(self, owner: str) -> None:
        self.owner, self.repos, self.cards, self.files, self.refuses = owner, [], [], {}, set()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer({"name": hub.owner, "orgs": [{"name": "lab"}]} if self.path.endswith("whoami-v2") else {})

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if any(part in self.path for part in hub.refuses):
                    self.answer({"error": "the disk of the hub is full"}, 403)
                elif self.path.endswith("/repos/create"):
                    made = json.loads(body)
                    hub.repos.append(made)
                    self.answer({"url": f"{hub.url}/{made.get('organization', hub.owner)}/{made['name']}"})
                elif "/preupload/" in self.path:
                    mode = {"uploadMode": "regular", "shouldIgnore": False}
                    self.answer({"files": [{"path": file["path"], **mode} for file in json.loads(body)["files"]]})
                elif self.path.endswith("/validate-yaml"):
                    hub.cards.append(json.loads(body))
                    self.answer({"errors": [], "warnings": []})
                else:
                    self.commit(self.path.split("/api/models/")[1].rpartition("/commit/")[0], body)

            def commit(self, repo, body):
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file":
                        value = line["value"]
                        hub.files.setdefault(repo, {})[value["path"]] = base64.b64decode(value["content"])
                self.answer({"commitUrl": f"{hub.url}/{repo}/commit/1", "commitOid": "1", "success": True})

            def answer(self, data, status=200):
                text = json.dumps(data).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                """Nothing on standard error."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Hub:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self.server.shutdown()
        self.server.server_close()
