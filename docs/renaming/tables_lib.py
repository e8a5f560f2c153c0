"""Tables of renames over a checkout: parse, model of the code, checks."""
import ast, pathlib, re, sys, collections
CORE = set("Question Target Forecast Trial Step Belief Evidence Prediction Outcome Resolution Score Round Order Fill Position Account Quote Intent Ledger Clock Message Prompt Gate Outbox Registry Scheduler Daemon Exposure Config Passage".split())
FLOORS = [["bot.core"],["bot.stats","bot.net","bot.plugin_system","bot.config"],["bot.store"],["bot.llm"],["bot.forecasting","bot.execution"],["bot.evaluation","bot.jobs"],["bot.daemon","bot.app"],["bot.cli","bot.web","bot.testing","bot.simulator"]]
def words(name):
    return re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+", name.strip("_"))
class Mod:
    def __init__(self, name, path, tree, text):
        self.name, self.path, self.tree, self.text = name, path, tree, text
        self.defs = {}      # name -> kind, node
        self.binds = {}     # imported name at module level -> (module, attr or None)
        self.imports = []   # all imports (module, attr|None, line, toplevel)
        def visit_top(body):
            for n in body:
                if isinstance(n, ast.ClassDef): self.defs[n.name] = ("class", n)
                elif isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)): self.defs[n.name] = ("func", n)
                elif isinstance(n, ast.Assign):
                    for t in n.targets:
                        for x in ast.walk(t):
                            if isinstance(x, ast.Name): self.defs[x.id] = ("var", n)
                elif isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name): self.defs[n.target.id] = ("var", n)
                elif isinstance(n, ast.Import):
                    for a in n.names:
                        self.binds[a.asname or a.name.split(".")[0]] = (a.name if a.asname else a.name.split(".")[0], None)
                elif isinstance(n, ast.ImportFrom):
                    for a in n.names: self.binds[a.asname or a.name] = (n.module, a.name)
                elif isinstance(n, (ast.If, ast.Try, ast.With)):
                    visit_top(n.body); visit_top(getattr(n, "orelse", []))
                    for h in getattr(n, "handlers", []): visit_top(h.body)
        visit_top(tree.body)
        for n in ast.walk(tree):
            if isinstance(n, ast.Import):
                for a in n.names: self.imports.append((a.name, None, n.lineno))
            elif isinstance(n, ast.ImportFrom) and n.module:
                for a in n.names: self.imports.append((n.module, a.name, n.lineno))
def load(root, tops=("bot","plugins","tests")):
    mods = {}
    root = pathlib.Path(root)
    for top in tops:
        for p in sorted((root/top).rglob("*.py")):
            rel = p.relative_to(root)
            parts = list(rel.with_suffix("").parts)
            if parts[-1] == "__init__": parts = parts[:-1]
            name = ".".join(parts)
            text = p.read_text()
            try: mods[name] = Mod(name, rel, ast.parse(text), text)
            except SyntaxError as e: print("syntax", p, e)
    return mods
class Tables:
    def __init__(self):
        self.module = {}; self.order = collections.defaultdict(list); self.doc = {}
        self.names = {}   # (mod, name) -> new name
        self.moves = {}   # (mod, name) -> new module
        self.attrs = []; self.tests = []; self.settings = []; self.where = {}
def read_tables(folder, only=None):
    t = Tables(); errs = []
    for f in sorted(pathlib.Path(folder).glob("*.tsv")):
        if only and f.stem not in only: continue
        for i, line in enumerate(f.read_text().splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"): continue
            line = line.split("\t#")[0].rstrip()
            cols = [c.strip() for c in line.split("\t") if c.strip()]
            if len(cols) < 3:
                cols = line.split(None, 2)
            if len(cols) < 3: errs.append(f"{f.name}:{i}: needs three columns: {line}"); continue
            kind, old, new = cols[:3]
            if kind != "doc": 
                new = new.split(" #")[0].strip()
            w = f"{f.name}:{i}"
            if kind == "module":
                new = new.split()[0]
                if old in t.module and t.module[old] != new: errs.append(f"{w}: {old} already goes to {t.module[old]}")
                t.module[old] = new; t.order[new].append(old); t.where[old] = w
            elif kind == "doc": t.doc[old] = new
            elif kind in ("class","func"):
                if ":" not in old: errs.append(f"{w}: {old} needs module:Name"); continue
                m, n = old.split(":"); t.names[m, n] = new.split()[0]; t.where[m, n] = w
                if "." in n: errs.append(f"{w}: {old}: use attr for members")
            elif kind == "move":
                if ":" not in old: errs.append(f"{w}: {old} needs module:Name"); continue
                m, n = old.split(":"); t.moves[m, n] = new.split()[0]; t.where[m, n, "move"] = w
            elif kind == "attr": t.attrs.append((old, new.split()[0], w))
            elif kind == "test": t.tests.append((old, new.split()[0], w))
            elif kind == "setting": t.settings.append((old, new, w))
            else: errs.append(f"{w}: unknown kind {kind}")
    return t, errs
def new_place(t, mod, name=None):
    if name is None: return t.module.get(mod, mod)
    return t.moves.get((mod, name)) or t.module.get(mod, mod)
def canonical(mods, mod, name, depth=0):
    """(module, name) that defines it, following re-exports; or (module.name, None) for a module."""
    if f"{mod}.{name}" in mods and (mod not in mods or (name not in mods[mod].defs and name not in mods[mod].binds)): return f"{mod}.{name}", None
    if mod not in mods: return mod, name
    m = mods[mod]
    if name in m.defs: return mod, name
    if name in m.binds and depth < 8:
        src, attr = m.binds[name]
        if attr is None: return src, None
        return canonical(mods, src, attr, depth + 1)
    if f"{mod}.{name}" in mods: return f"{mod}.{name}", None
    return mod, name
def room(name):
    parts = name.split(".")
    if parts[0] != "bot": return ".".join(parts[:2]) if parts[0]=="plugins" else parts[0]
    return ".".join(parts[:2])
