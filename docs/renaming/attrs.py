"""Member renames by a language server.  attrs.py ROOT [TABLE ...]: applies attr rows (and prints what it could not)."""
import ast, asyncio, collections, json, pathlib, re, sys, time
sys.path.insert(0, str(__import__("pathlib").Path(__file__).parent))
from tables_lib import *
ROOT = pathlib.Path(sys.argv[1]).resolve(); ONLY = set(sys.argv[2:]) or None
mods = load(ROOT); T, _ = read_tables(str(__import__("pathlib").Path(__file__).parent / "tables"), ONLY)
def member_sites(node, name):
    """positions (line, col chars) of definitions of a member"""
    res = []
    for n in node.body:
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name == name: res.append(("def", n))
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and n.target.id == name: res.append(("name", n.target))
        if isinstance(n, ast.Assign):
            for t in n.targets:
                if isinstance(t, ast.Name) and t.id == name: res.append(("name", t))
    if not res:
        for n in ast.walk(node):
            if isinstance(n, ast.Attribute) and n.attr == name and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name) and n.value.id == "self":
                res.append(("attr", n)); break
    return res
def position(mod, site):
    kind, n = site; lines = mod.text.split("\n")
    if kind == "def":
        l = lines[n.lineno - 1]; m = re.search(r"\bdef\s+" + n.name + r"\b", l); return n.lineno - 1, m.end() - len(n.name)
    if kind == "name": 
        return n.lineno - 1, len(lines[n.lineno-1].encode()[:n.col_offset].decode())
    l = lines[n.end_lineno - 1]; return n.end_lineno - 1, len(l.encode()[:n.end_col_offset].decode()) - len(n.attr)
jobs = []; subclasses = collections.defaultdict(set)
bases = {}
for m, mod in mods.items():
    for d, (k, node) in mod.defs.items():
        if k == "class":
            bs = set()
            for b in node.bases:
                b = b.value if isinstance(b, ast.Subscript) else b
                if isinstance(b, ast.Name): bs.add(canonical(mods, m, b.id))
            bases[m, d] = bs
def heirs(key):
    out = set()
    for k, bs in bases.items():
        if key in bs: out |= {k} | heirs(k)
    return out
def is_protocol(key): return any(b[1] == "Protocol" for b in bases.get(key, ()))
def params(n): return [a.arg for a in [*n.args.posonlyargs, *n.args.args, *n.args.kwonlyargs]]
done = set()
for old, new, w in T.attrs:
    m, cn = old.split(":"); c, n = cn.split(".", 1)
    if m not in mods or c not in mods[m].defs: print("!", w, "no class", old); continue
    keys = [(m, c), *sorted(heirs((m, c)))]
    site0 = member_sites(mods[m].defs[c][1], n)
    if is_protocol((m, c)) and site0 and site0[0][0] == "def":
        want = params(site0[0][1])
        for k, node in ((k, mods[k[0]].defs[k[1]][1]) for k in bases):
            s = member_sites(node, n)
            members = {x.name for x in mods[m].defs[c][1].body if isinstance(x, (ast.FunctionDef, ast.AsyncFunctionDef))}
            mine = {x.name for x in node.body if isinstance(x, (ast.FunctionDef, ast.AsyncFunctionDef))}
            if s and s[0][0] == "def" and (members <= mine or params(s[0][1]) == want and len(want) > 1) and k not in keys: keys.append(k)
    found = False
    for k in keys:
        for site in member_sites(mods[k[0]].defs[k[1]][1], n)[:1]:
            found = True
            if (k, n) in done: continue
            done.add((k, n)); line, col = position(mods[k[0]], site)
            jobs.append((ROOT / mods[k[0]].path, line, col, n, new, f"{w} {k[0]}:{k[1]}.{n}"))
    if not found: print("!", w, "no member", old)
print(len(jobs), "renames")
class Server:
    async def start(self):
        self.p = await asyncio.create_subprocess_exec("basedpyright-langserver", "--stdio", stdin=-1, stdout=-1, stderr=-3, limit=1 << 28)
        self.n = 0; self.waiting = {}; asyncio.ensure_future(self.read())
    def send(self, msg):
        b = json.dumps({"jsonrpc": "2.0", **msg}).encode(); self.p.stdin.write(b"Content-Length: %d\r\n\r\n" % len(b) + b)
    async def ask(self, method, params, timeout=400):
        self.n += 1; f = asyncio.get_event_loop().create_future(); self.waiting[self.n] = f
        self.send({"id": self.n, "method": method, "params": params}); return await asyncio.wait_for(f, timeout)
    async def read(self):
        while True:
            size = 0
            while (l := await self.p.stdout.readline()).strip():
                if l.lower().startswith(b"content-length"): size = int(l.split(b":")[1])
            if not size: return
            msg = json.loads(await self.p.stdout.readexactly(size))
            if "method" in msg and "id" in msg:
                r = None
                if msg["method"] == "workspace/configuration": r = [{"analysis": {"diagnosticMode": "openFilesOnly", "indexing": False, "typeCheckingMode": "off"}, "disableLanguageServices": False} for _ in msg["params"]["items"]]
                self.send({"id": msg["id"], "result": r})
            elif "id" in msg and msg["id"] in self.waiting:
                f = self.waiting.pop(msg["id"])
                if not f.done(): f.set_result(msg)
async def main():
    s = Server(); await s.start()
    await s.ask("initialize", {"processId": None, "rootUri": ROOT.as_uri(), "workspaceFolders": [{"uri": ROOT.as_uri(), "name": "x"}],
        "capabilities": {"workspace": {"configuration": True, "workspaceFolders": True}, "textDocument": {"rename": {"prepareSupport": True}}},
        "initializationOptions": {"disablePullDiagnostics": True}})
    s.send({"method": "initialized", "params": {}})
    await asyncio.sleep(4)
    for warm in jobs[:2]:
        uri = warm[0].as_uri(); s.send({"method": "textDocument/didOpen", "params": {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": warm[0].read_text()}}})
        await s.ask("textDocument/rename", {"textDocument": {"uri": uri}, "position": {"line": warm[1], "character": warm[2]}, "newName": warm[4]}); await asyncio.sleep(2)
    edits = collections.defaultdict(dict); opened = {j[0].as_uri() for j in jobs[:2]}
    for path, line, col, old, new, w in jobs:
        t = time.time(); uri = path.as_uri()
        if uri not in opened:
            opened.add(uri); s.send({"method": "textDocument/didOpen", "params": {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": path.read_text()}}})
        try: r = await s.ask("textDocument/rename", {"textDocument": {"uri": uri}, "position": {"line": line, "character": col}, "newName": new})
        except asyncio.TimeoutError: print("!", w, "timeout"); continue
        res = r.get("result") or {}
        ch = res.get("changes") or {d["textDocument"]["uri"]: d["edits"] for d in res.get("documentChanges", []) if "edits" in d}
        k = sum(map(len, ch.values()))
        if not k: print("!", w, "nothing", r.get("error"))
        for u, es in ch.items():
            from urllib.parse import unquote
            p = unquote(u[7:])
            if "/.venv/" in p: continue
            for e in es:
                r0, r1 = e["range"]["start"], e["range"]["end"]
                key = (r0["line"], r0["character"], r1["line"], r1["character"])
                if edits[p].get(key, e["newText"]) != e["newText"]: print("!", w, "two names at", p, key, edits[p][key], e["newText"])
                edits[p].setdefault(key, e["newText"])
        print(f"{w} -> {new}: {k} in {len(ch)} files, {time.time()-t:.1f} s", flush=True)
    for p, es in edits.items():
        lines = pathlib.Path(p).read_text().split("\n")
        for (l0, c0, l1, c1), new in sorted(es.items(), reverse=True):
            if l0 != l1: print("! multi-line", p, l0); continue
            u = lines[l0].encode("utf-16-le"); lines[l0] = u[:2*c0].decode("utf-16-le") + new + u[2*c1:].decode("utf-16-le")
        pathlib.Path(p).write_text("\n".join(lines))
    print("files", len(edits)); s.p.kill()
asyncio.run(main())
