"""A server with apps for the tests in Chromium: ``python app_pages.py VICTIM LIBRARY``.

VICTIM is the origin of a server that views must not reach, and LIBRARY the file of the library for views.
"""

from __future__ import annotations

import sys
from pathlib import Path

from trio_mcp import Csp, Server

server = Server("pages")
VICTIM, EXT_APPS = sys.argv[1:]

BEGIN = """<!doctype html><meta charset="utf-8"><body><script>
const waiting = new Map();
let lastId = 0;
const send = message => parent.postMessage({jsonrpc: "2.0", ...message}, "*");
const request = (method, params = {}) => new Promise(resolve => {
  waiting.set(++lastId, resolve);
  send({id: lastId, method, params});
});
window.heard = [];
addEventListener("message", ({data}) => {
  if (data.method) window.heard.push(data.method);
  else waiting.get(data.id)(data.result ?? data.error);
});
window.began = (async () => {
  const about = {appInfo: {name: "page", version: "1"}, appCapabilities: {}, protocolVersion: "2026-01-26"};
  const host = await request("ui/initialize", about);
  send({method: "ui/notifications/initialized"});
  return host;
})();
</script>
"""

ESCAPE = f"""{BEGIN}
<a id="top" href="{VICTIM}/link" target="_top">top</a>
<form id="form" action="{VICTIM}/form" target="_self"><button id="submit">submit</button></form>
<img src="{VICTIM}/image">
<link rel="stylesheet" href="{VICTIM}/style">
<script src="{VICTIM}/script"></script>
<iframe src="{VICTIM}/frame"></iframe>
<script>
const tried = async work => {{ try {{ return await work() ?? "done" }} catch (error) {{ return error.name }} }};
const timed = promise => Promise.race([promise, new Promise(resolve => setTimeout(resolve, 300, "nothing"))]);
const attempts = {{
  fetch: () => tried(() => fetch("{VICTIM}/fetch", {{mode: "no-cors"}}).then(() => "reached")),
  beacon: () => tried(() => String(navigator.sendBeacon("{VICTIM}/beacon", "x"))),
  socket: () => tried(() => timed(new Promise(resolve => {{
    const socket = new WebSocket("{VICTIM}/socket".replace("http", "ws"));
    socket.onopen = () => resolve("reached");
    socket.onerror = () => resolve("refused");
  }}))),
  source: () => tried(() => timed(new Promise(resolve => {{
    new EventSource("{VICTIM}/source").onerror = () => resolve("refused");
  }}))),
  worker: () => tried(() => timed(new Promise(resolve => {{
    const worker = new Worker(URL.createObjectURL(new Blob(["postMessage(1)"])));
    worker.onmessage = () => resolve("runs");
    worker.onerror = () => resolve("refused");
  }}))),
  eval: () => tried(() => eval("'evaluated'")),
  parent: () => tried(() => parent.document.title),
  top: () => tried(() => top.document.title),
  topLocation: () => tried(() => {{ top.location = "{VICTIM}/top"; return "set" }}),
  parentLocation: () => tried(() => {{ parent.location = "{VICTIM}/parent"; return "set" }}),
  popup: () => tried(() => String(open("{VICTIM}/popup"))),
  storage: () => tried(() => localStorage.length),
  cookie: () => tried(() => document.cookie),
  origin: () => origin,
  camera: () => document.featurePolicy.allowsFeature("camera"),
}};
window.outcomes = (async () => {{
  const outcomes = {{}};
  for (const [name, attempt] of Object.entries(attempts)) outcomes[name] = await attempt();
  return outcomes;
}})();
</script>
"""

LIBRARY = """<!doctype html><meta charset="utf-8"><body style="margin: 0"><h1 id="sold" style="height: 400px"></h1>
<script type="module">
LIBRARY
const app = new App({name: "view", version: "1"}, {availableDisplayModes: ["inline"]});
window.heard = [];
app.ontoolinput = params => heard.push(["input", params.arguments]);
app.ontoolresult = params => {
  heard.push(["result", params.structuredContent]);
  document.getElementById("sold").textContent = params.content[0].text;
};
app.onhostcontextchanged = params => heard.push(["context", params.theme]);
app.onteardown = async () => ({});
window.app = app;
await app.connect();
window.isConnected = true;
</script>
"""


@server.app("ui://escape", csp=Csp())
def escape() -> str:
    """Return a page that tries to leave its sandbox."""
    return ESCAPE


@server.app("ui://wide", csp=Csp(connect=[VICTIM], resources=[VICTIM]))
def wide() -> str:
    """Return a page that may use an origin."""
    return BEGIN


@server.app("ui://library")
def library() -> str:
    """Return a page that is made with the library for views."""
    module = Path(EXT_APPS).read_text(encoding="utf-8")
    code, _, exports = module.rpartition("export{")
    (name,) = [each.partition(" as ")[0] for each in exports.rstrip(" ;}\n").split(",") if each.endswith(" as App")]
    return LIBRARY.replace("LIBRARY", f"{code}\nconst App = {name};".replace("</script", "<\\/script"), 1)


@server.tool(app="ui://escape")
async def leave() -> str:
    """Show the page that tries to leave its sandbox."""
    return "shown"


@server.tool(app="ui://wide")
async def stay() -> str:
    """Show the page that may use an origin."""
    return "shown"


@server.tool(app="ui://library")
async def sold(year: int) -> dict[str, int]:
    """Show the page that is made with the library."""
    return {"year": year}


if __name__ == "__main__":
    server.run()
