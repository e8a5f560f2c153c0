"""Applies tables of moves and renames to a checkout.  refactor.py ROOT [TABLE ...]"""
import ast, bisect, collections, pathlib, re, subprocess, sys
sys.path.insert(0, str(__import__("pathlib").Path(__file__).parent))
from tables_lib import *

ROOT = pathlib.Path(sys.argv[1]); ONLY = set(sys.argv[2:]) or None
mods = load(ROOT)
T, errs = read_tables(str(__import__("pathlib").Path(__file__).parent / "tables"), ONLY)
for e in errs: print("table:", e)
problems = []

# --- test rows become module rows
def path_module(p): 
    return p[:-3].replace("/", ".") if p.endswith(".py") else p.replace("/", ".")
for old, new, w in T.tests:
    o, n = path_module(old.rstrip("/")), path_module(new.rstrip("/"))
    hits = [m for m in mods if m == o or m.startswith(o + ".")]
    if not hits and not (ROOT/old).exists(): problems.append(f"{w}: no test {old}"); continue
    for m in hits:
        if m not in T.module:
            tgt = n + m[len(o):]
            T.module[m] = tgt; T.order[tgt].append(m)
# keep only rows that apply to this tree
for m in list(T.module):
    if m not in mods: problems.append(f"unknown module {m}"); T.order[T.module[m]].remove(m); del T.module[m]
for k in list(T.names):
    if k[0] not in mods or k[1] not in mods[k[0]].defs: problems.append(f"unknown name {k}"); del T.names[k]
for k in list(T.moves):
    if k[0] not in mods or k[1] not in mods[k[0]].defs: problems.append(f"unknown move {k}"); del T.moves[k]

def target(cm, cn):
    """new (module, name) of a canonical symbol or module"""
    if cn is None: return T.module.get(cm, cm), None
    return new_place(T, cm, cn), T.names.get((cm, cn), cn)

def exported(mod, name, depth=0):
    """the new name under which an old module offers it"""
    if mod not in mods or depth > 8: return name
    m = mods[mod]
    if name in m.defs: return T.names.get((mod, name), name)
    if name in m.binds:
        src, attr = m.binds[name]
        if attr is None or attr != name: return name
        if f"{src}.{attr}" in mods and (src not in mods or attr not in mods[src].defs): return T.module.get(f"{src}.{attr}", f"{src}.{attr}").rsplit(".", 1)[1]
        return exported(src, attr, depth + 1)
    return name
# --- scopes
class Scope:
    def __init__(self, node, parent, kind):
        self.node, self.parent, self.kind = node, parent, kind
        self.bound = {}   # name -> ('import', (m,a)) | ('local',)
        self.globals = set()
    def lookup(self, name):
        s = self; first = True
        while s is not None:
            if name in s.bound and (first or s.kind != "class") and name not in s.globals: return s, s.bound[name]
            if name in s.globals:
                while s.parent is not None: s = s.parent
                return s, s.bound.get(name)
            s = s.parent; first = False
        return None, None
class Binder(ast.NodeVisitor):
    """collects scopes and uses"""
    def __init__(self, mod):
        self.scope = Scope(mod.tree, None, "module"); self.top = self.scope
        self.uses = []      # (node(Name), scope)
        self.attrs = []     # Attribute nodes with Name chain root
        self.stmts = []     # import statements (node, scope)
        self.defsites = []
        self.strs = []; self.ann = set()
        for x in ast.walk(mod.tree):
            for a in ([x.annotation] if isinstance(x, (ast.arg, ast.AnnAssign)) else [x.returns] if isinstance(x, (ast.FunctionDef, ast.AsyncFunctionDef)) else
                      [x] if isinstance(x, ast.Call) and getattr(x.func, "id", "") in ("cast", "TypeVar") else [x] if isinstance(x, ast.Assign) else []):
                if a is not None:
                    for y in ast.walk(a):
                        if isinstance(y, ast.Constant) and isinstance(y.value, str): self.ann.add(id(y))
        for n in mod.tree.body: self.visit(n)
    def bind(self, name, what): 
        self.scope.bound.setdefault(name, what) if what[0] == "local" else self.scope.bound.__setitem__(name, what)
    def visit_Import(self, n):
        for a in n.names: self.bind(a.asname or a.name.split(".")[0], ("import", (a.name if a.asname else a.name.split(".")[0], None)))
        self.stmts.append((n, self.scope))
    def visit_ImportFrom(self, n):
        for a in n.names: self.bind(a.asname or a.name, ("import", (n.module, a.name)))
        self.stmts.append((n, self.scope))
    def args(self, a):
        for x in [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, [a.vararg, a.kwarg])]: self.bind(x.arg, ("local",))
    def func(self, n):
        self.bind(n.name, ("local",)) if self.scope is not self.top else self.scope.bound.setdefault(n.name, ("def",))
        for d in n.decorator_list: self.visit(d)
        for d in [*n.args.defaults, *filter(None, n.args.kw_defaults)]: self.visit(d)
        for x in [*n.args.posonlyargs, *n.args.args, *n.args.kwonlyargs, *filter(None, [n.args.vararg, n.args.kwarg])]:
            if x.annotation: self.visit(x.annotation)
        if n.returns: self.visit(n.returns)
        if self.scope is self.top: self.defsites.append(n)
        old = self.scope; self.scope = Scope(n, old, "func"); self.args(n.args)
        for s in n.body: self.visit(s)
        self.scope = old
    visit_FunctionDef = visit_AsyncFunctionDef = func
    def visit_Lambda(self, n):
        for d in [*n.args.defaults, *filter(None, n.args.kw_defaults)]: self.visit(d)
        old = self.scope; self.scope = Scope(n, old, "func"); self.args(n.args); self.visit(n.body); self.scope = old
    def visit_ClassDef(self, n):
        self.bind(n.name, ("local",)) if self.scope is not self.top else self.scope.bound.setdefault(n.name, ("def",))
        if self.scope is self.top: self.defsites.append(n)
        for d in n.decorator_list: self.visit(d)
        for b in n.bases: self.visit(b)
        for k in n.keywords: self.visit(k.value)
        old = self.scope; self.scope = Scope(n, old, "class")
        for s in n.body: self.visit(s)
        self.scope = old
    def comp(self, n):
        self.visit(n.generators[0].iter)
        old = self.scope; self.scope = Scope(n, old, "func")
        for i, g in enumerate(n.generators):
            self.visit(g.target)
            if i: self.visit(g.iter)
            for c in g.ifs: self.visit(c)
        if isinstance(n, ast.DictComp): self.visit(n.key); self.visit(n.value)
        else: self.visit(n.elt)
        self.scope = old
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = comp
    def visit_Name(self, n):
        if isinstance(n.ctx, (ast.Store, ast.Del)):
            s = self.scope
            if self.scope is self.top: self.top.bound.setdefault(n.id, ("def",))
            elif n.id not in s.globals: s.bound.setdefault(n.id, ("local",))
        self.uses.append((n, self.scope))
    def visit_Global(self, n): self.scope.globals.update(n.names)
    def visit_Attribute(self, n):
        self.attrs.append((n, self.scope)); self.visit(n.value)
    def visit_ExceptHandler(self, n):
        if n.name: self.bind(n.name, ("local",))
        self.generic_visit(n)
    def visit_MatchAs(self, n):
        if n.name: self.bind(n.name, ("local",))
        self.generic_visit(n)
    def visit_MatchStar(self, n):
        if n.name: self.bind(n.name, ("local",))
    def visit_Constant(self, n):
        if isinstance(n.value, str): self.strs.append(n)

class Editor:
    def __init__(self, text):
        self.text = text; b = text.encode(); self.b = b
        self.starts = [0]
        for i, c in enumerate(b):
            if c == 10: self.starts.append(i + 1)
        self.edits = []
    def pos(self, line, col): return self.starts[line - 1] + col
    def span(self, n): return self.pos(n.lineno, n.col_offset), self.pos(n.end_lineno, n.end_col_offset)
    def add(self, s, e, new): self.edits.append((s, e, new))
    def render(self, s, e):
        out = []; at = s
        for a, z, new in sorted(set(self.edits)):
            if a < at or z > e: continue
            out.append(self.b[at:a].decode()); out.append(new); at = z
        out.append(self.b[at:e].decode())
        return "".join(out)

DOTTED = re.compile(r"\b(?:bot|plugins|tests)(?:\.\w+)+(?::\w+)?")
PATH = re.compile(r"\b(?:bot|plugins|tests)(?:/\w+)+(?:\.py)?\b")
def map_dotted(s):
    body, _, tail = s.partition(":")
    parts = body.split(".")
    for k in range(len(parts), 0, -1):
        m = ".".join(parts[:k])
        if m in mods:
            rest = parts[k:]
            if tail and not rest:
                if tail in mods[m].defs or tail in mods[m].binds:
                    nm, nn = target(*canonical(mods, m, tail)) if tail in mods[m].defs else (T.module.get(m, m), tail)
                    return f"{nm}:{nn}"
                return f"{T.module.get(m, m)}:{tail}"
            if rest and rest[0] in mods[m].defs:
                nm, nn = target(m, rest[0]); return ".".join([nm, nn, *rest[1:]]) + (f":{tail}" if tail else "")
            if rest and k < len(parts) and m in PACKAGES and rest[0][:1].islower() and rest[0] not in mods[m].binds: 
                return s if m not in ROOMS else ".".join([ROOMS[m], *rest]) + (f":{tail}" if tail else "")
            return ".".join([T.module.get(m, ROOMS.get(m, m)), *rest]) + (f":{tail}" if tail else "")
    return s
def map_path(s):
    isfile = s.endswith(".py")
    m = path_module(s)
    if isfile: 
        return T.module.get(m, m).replace(".", "/") + ".py" if m in mods else s
    if m in ROOMS: return ROOMS[m].replace(".", "/")
    if m in mods and m in T.module: return T.module[m].replace(".", "/")
    return s
PACKAGES = {m for m in mods if mods[m].path.name == "__init__.py"}
# folders whose package goes elsewhere as a whole: the __init__ row, or where most of its modules go
ROOMS = {}
dirs = collections.defaultdict(collections.Counter)
for m in mods:
    if m in T.module and "." in m:
        dirs[m.rsplit(".", 1)[0]][T.module[m].rsplit(".", 1)[0]] += 1
for d, c in dirs.items():
    best = T.module.get(d) or c.most_common(1)[0][0]
    stay = sum(1 for m in mods if m.startswith(d + ".") and m not in T.module)
    if best != d and (T.module.get(d) or not stay): ROOMS[d] = best

def map_text(s):
    s = DOTTED.sub(lambda m: map_dotted(m[0]), s)
    return PATH.sub(lambda m: map_path(m[0]), s)

# names in backticks: only those with one meaning
renamed = collections.defaultdict(set); existing = collections.Counter()
for (m, n), new in T.names.items(): renamed[n].add(new)
for m in mods.values():
    for n in m.defs: existing[n] += 1
def backticks(text, names, here=()):
    def sub(m):
        n = m[2]
        if n not in here and n.islower() and "_" not in n.strip("_"): return m[0]
        return m[1] + names.get(n, n) + m[3]
    return re.sub(r"(``|`)(\w+)((?:\.\w+)?(?:\(\))?(?:``|`))", sub, text)

IMPORT = re.compile(r"from ((?:bot|plugins|tests)[\w.]*) import ([\w, ]+)")
def map_depth(s): return s
def code_text(s, names=None):
    names = {} if names is None else names
    def sub(m):
        mod_, ns = m[1], [n.strip().split(" as ")[0] for n in m[2].split(",")]
        if mod_ not in mods: return m[0]
        new = collections.OrderedDict()
        for n in ns:
            if not n: continue
            if n in mods[mod_].defs: nm, nn = target(mod_, n)
            elif f"{mod_}.{n}" in mods: nm, nn = T.module.get(f"{mod_}.{n}", f"{mod_}.{n}").rsplit(".", 1)
            else: nm, nn = T.module.get(mod_, mod_), exported(mod_, n)
            if nn != n: names[n] = nn
            new.setdefault(nm, []).append(nn)
        return "; ".join(f"from {k} import {', '.join(v)}" for k, v in new.items())
    s2 = IMPORT.sub(sub, s)
    for a, b in names.items(): s2 = re.sub(rf"(?<![\w.]){a}\b(?!=)", b, s2)
    return map_text(s2)
# --- per file: edits
files = {}  # old module -> Editor
needs = collections.defaultdict(set)     # new module -> extra imports {(module, name)}
info = {}
for name, mod in mods.items():
    B = Binder(mod); E = Editor(mod.text); files[name] = E
    here_default = T.module.get(name, name)
    # owner of each top-level statement
    stmt_of = []
    for i, st in enumerate(mod.tree.body):
        owner = here_default
        for d, (k, node) in mod.defs.items():
            if node is st and (name, d) in T.moves: owner = T.moves[name, d]
        start = min([st.lineno, *[d.lineno for d in getattr(st, "decorator_list", [])]])
        stmt_of.append((start, st.end_lineno, owner, st))
    starts = [s[0] for s in stmt_of]
    def owner_at(line):
        i = bisect.bisect_right(starts, line) - 1
        return stmt_of[i][2] if i >= 0 else here_default
    localmap = {}
    B_locals = collections.defaultdict(set)
    all_scopes = {}
    for n, sc in B.uses: all_scopes[id(sc)] = sc
    def resolve_import(what):
        m, a = what[1]
        if a is None: return (m, None)
        return canonical(mods, m, a)
    # local new names for imports
    def local_new(bname, what):
        m, a = what[1]
        if a is None: return bname
        cm, cn = resolve_import(what)
        if cm.split(".")[0] not in ("bot", "plugins", "tests"): return bname
        nm, nn = target(cm, cn)
        if a != bname:           # has asname
            return nn if cn and nm == here_default and m in mods and a in mods[m].defs else bname
        if not nn: return nm.rsplit(".", 1)[1]
        return exported(m, a)
    def conflict(scope, binder_scope, new, old):
        s = scope
        while s is not None and s is not binder_scope:
            if new in s.bound and new != old and s.kind != "class": return True
            s = s.parent
        return False
    modattr_done = set()
    # module attribute chains
    for n, sc in B.attrs:
        if not isinstance(n.value, ast.Name): continue
        bs, what = sc.lookup(n.value.id)
        if not what or what[0] != "import": continue
        cm, cn = resolve_import(what)
        if cn is not None or cm not in mods: continue
        tm, tn = canonical(mods, cm, n.attr)
        if tn is None: continue
        nm, nn = target(tm, tn)
        mod_new = T.module.get(cm, cm)
        here = owner_at(n.lineno)
        s, e = E.span(n)
        modattr_done.add(id(n.value))
        reexport = tm != cm and n.attr not in mods[cm].defs
        loc = local_new(n.value.id, what)
        if reexport: 
            E.add(s, e, f"{loc}.{exported(cm, n.attr)}"); continue
        if nm == here:
            if conflict(sc, None, nn, ""): problems.append(f"{name}:{n.lineno}: {nn} is bound here")
            E.add(s, e, nn); continue
        if nm == mod_new and not conflict(sc, bs, loc, n.value.id) and not (bs is not sc and False):
            E.add(s, e, f"{loc}.{nn}")
        else:
            if conflict(sc, None, nn, ""): problems.append(f"{name}:{n.lineno}: {nn} (of {nm}) is bound here")
            E.add(s, e, nn); needs[here].add((nm, nn))
    # plain names
    for n, sc in B.uses:
        if id(n) in modattr_done: continue
        bs, what = sc.lookup(n.id)
        if what is None: continue
        if what[0] == "import":
            cm, cn = resolve_import(what)
            new = local_new(n.id, what)
            if new != n.id:
                if conflict(sc, bs, new, n.id): problems.append(f"{name}:{n.lineno}: {n.id} -> {new}: bound here")
                E.add(*E.span(n), new)
            if cn and cm in mods:
                nm, nn = target(cm, cn)
                if owner_at(n.lineno) != here_default and nm != owner_at(n.lineno) and what[1][1] == n.id: needs[owner_at(n.lineno)].add((nm, nn))
        elif bs is B.top and n.id in mod.defs:
            nm, nn = target(name, n.id)
            if nn != n.id:
                if conflict(sc, bs, nn, n.id): problems.append(f"{name}:{n.lineno}: {n.id} -> {nn}: bound here")
                E.add(*E.span(n), nn)
            if nm != owner_at(n.lineno): needs[owner_at(n.lineno)].add((nm, nn))
    # definitions
    for n in B.defsites:
        new = T.names.get((name, n.name))
        if new:
            line = mod.text.encode().split(b"\n")[n.lineno - 1]
            m = re.search(rb"\b(?:class|def)\s+" + n.name.encode() + rb"\b", line)
            s = E.pos(n.lineno, m.end() - len(n.name.encode())); E.add(s, s + len(n.name.encode()), new)
    # imports
    for n, sc in B.stmts:
        if isinstance(n, ast.Import):
            for a in n.names:
                if a.name.split(".")[0] in ("bot", "plugins", "tests") and a.name in mods and T.module.get(a.name, a.name) != a.name:
                    E.add(*E.span(a), T.module[a.name] + (f" as {a.asname}" if a.asname else "")); 
                    if not a.asname: problems.append(f"{name}:{n.lineno}: import {a.name}: look at its uses")
            continue
        if not n.module or n.module.split(".")[0] not in ("bot", "plugins", "tests") or n.level: continue
        here = owner_at(n.lineno) if sc is not B.top else None
        lines = collections.OrderedDict()
        for a in n.names:
            m_def = n.module in mods and a.name in mods[n.module].defs
            cm, cn = canonical(mods, n.module, a.name)
            if n.module in mods and a.name in mods[n.module].binds and not m_def:
                nn = exported(n.module, a.name); src = T.module.get(n.module, n.module)
            elif cn is None and cm in mods:
                nm = T.module.get(cm, cm); src, nn = nm.rsplit(".", 1)
                if sc is not B.top and nm == here or sc is B.top and nm == here_default: continue
            elif m_def or n.module not in mods:
                nm, nn = target(n.module, a.name) if n.module in mods else (n.module, a.name); src = nm
                if (sc is not B.top and nm == here) or (sc is B.top and nm == here_default):
                    continue
            else:   # a re-export (bot.api): the module stays, the name follows
                nn = exported(n.module, a.name); src = T.module.get(n.module, n.module)
            as_ = f" as {a.asname}" if a.asname and a.asname != nn else ""
            lines.setdefault(src, []).append(nn + as_)
        indent = " " * n.col_offset
        text = ("\n" + indent).join(f"from {src} import {', '.join(dict.fromkeys(v))}" for src, v in lines.items())
        if not text and sc is not B.top: text = "pass"
        E.add(*E.span(n), text)
    # strings
    edited = sorted(E.edits)
    known = {n: list(v)[0] for n, v in renamed.items() if len(v) == 1 and existing[n] == 1}
    for d in mod.defs:
        if (name, d) in T.names: known[d] = T.names[name, d]
        elif d in known: del known[d]
    for b, (m_, a_) in mod.binds.items():
        if a_ and b == a_:
            c = canonical(mods, m_, a_)
            if c in T.names: known[b] = T.names[c]
            elif b in known: del known[b]
    all_names = set(); here_names = set(mod.defs) | set(mod.binds)
    for st in mod.tree.body:
        if isinstance(st, (ast.Assign, ast.AugAssign)) and "__all__" in ast.unparse(st).split("=")[0]:
            for x in ast.walk(st):
                if isinstance(x, ast.Constant) and isinstance(x.value, str):
                    all_names.add(id(x)); new = exported(name, x.value)
                    if new != x.value: E.add(*E.span(x), f'"{new}"')
    for d in mod.defs:     # an import whose new name a definition here has
        dn = T.names.get((name, d), d)
        for b, (m_, a_) in mod.binds.items():
            if a_ and m_ and m_.split(".")[0] in ("bot", "plugins", "tests") and b == a_ and exported(m_, a_) == dn and canonical(mods, m_, a_) != (name, d): problems.append(f"{name}: {dn} is defined here and imported from {m_}")
    coded = {}
    for n in B.strs:
        s, e = E.span(n); src = E.b[s:e].decode()
        if "import" in src: code_text(src, coded)
    coded = {k: v for k, v in coded.items() if k[:1].isupper()}
    for n in B.strs:
        if id(n) in all_names: continue
        s, e = E.span(n); src = E.b[s:e].decode()
        new = code_text(map_depth(src)) if "import" in src else map_text(src)
        if coded and re.search(r"[(:=\[.]", src):
            for a_, b_ in coded.items(): new = re.sub(rf"(?<![\w.]){a_}\b(?=[\](.,:)])(?!: )", b_, new) if "import" not in src else new
        if "``" in new: new = backticks(new, known, here_names)
        if id(n) in B.ann and re.fullmatch(r"[A-Za-z_][\w\[\], |.]*", n.value) and re.search(r"[A-Z]", n.value):
            new = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: known.get(m[0], m[0]) if (m[0] in mod.defs or m[0] in mod.binds) else m[0], src)
        if new != src: E.add(s, e, new)
    # comments: by token
    import io, tokenize
    for tok in tokenize.generate_tokens(io.StringIO(mod.text).readline):
        if tok.type == tokenize.COMMENT:
            new = backticks(map_text(tok.string), known, here_names)
            if new != tok.string:
                line = mod.text.split("\n")[tok.start[0]-1]
                s = E.pos(tok.start[0], len(line[:tok.start[1]].encode())); E.add(s, s + len(tok.string.encode()), new)
    info[name] = (B, stmt_of)

# --- composition
sources = collections.defaultdict(list)     # new module -> ordered [(old module)]
for nm, olds in T.order.items(): sources[nm] = [o for o in olds]
for m in mods:
    nm = T.module.get(m, m)
    if m not in sources[nm]: sources[nm].append(m) if nm != m else sources[nm].insert(0, m) if not T.order.get(nm) else sources[nm].append(m)
moved_in = collections.defaultdict(list)
for (m, n), nm in T.moves.items(): moved_in[nm].append((m, n))
output = {}
def blocks(old):
    """(kind, owner, text) for each top-level statement, leading comments included"""
    mod = mods[old]; E = files[old]; _, stmt_of = info[old]
    res = []; at = 0
    for i, (start, end, owner, st) in enumerate(stmt_of):
        z = E.starts[end] if end < len(E.starts) else len(E.b)
        kind = "doc" if i == 0 and isinstance(st, ast.Expr) and isinstance(st.value, ast.Constant) and isinstance(st.value.value, str) else \
               "import" if isinstance(st, (ast.Import, ast.ImportFrom)) else "typing" if isinstance(st, ast.If) and "TYPE_CHECKING" in ast.unparse(st.test) else "body"
        res.append((kind, owner, E.render(at, z))); at = z
    rest = E.render(at, len(E.b)) if at < len(E.b) else ""
    if rest.strip(): res.append(("body", T.module.get(old, old), rest))
    return res
def eager(node):
    """names a statement needs when it is run"""
    out = set()
    def walk(n, inner=False):
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for d in n.decorator_list: walk(d)
            a = n.args
            for d in [*a.defaults, *filter(None, a.kw_defaults)]: walk(d)
            for x in [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, [a.vararg, a.kwarg])]:
                if x.annotation: walk(x.annotation)
            if n.returns: walk(n.returns)
            return
        if isinstance(n, ast.Lambda): return
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load): out.add(n.id)
        for c in ast.iter_child_nodes(n): walk(c)
    walk(node); return out
def ordered(body):
    items = []
    for b in body:
        try: tree = ast.parse(b)
        except SyntaxError: return body
        names, uses = set(), set()
        for st in tree.body:
            if isinstance(st, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)): names.add(st.name)
            else: names |= {x.id for x in ast.walk(st) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
            uses |= eager(st)
        items.append((b, names, uses))
    owner = {n: i for i, (_, names, _) in enumerate(items) for n in names}
    out, state = [], {}
    def put(i):
        if state.get(i): return
        state[i] = 1
        for u in sorted(items[i][2], key=lambda u: owner.get(u, -1)):
            if u in owner and owner[u] != i: put(owner[u])
        out.append(items[i][0])
    for i in range(len(items)): put(i)
    return out
def doc_of(d):
    d = d.strip()
    if len(d) <= 112: return f'"""{d}"""'
    import textwrap
    for sep in (". ", ": ", "; ", ", "):
        i = d.find(sep)
        if 20 < i < 112:
            head, rest = d[:i].rstrip(".") + ".", d[i + len(sep):]
            rest = rest[0].upper() + rest[1:]
            if not rest.endswith("."): rest += "."
            return '"""' + head + "\n\n" + "\n".join(textwrap.wrap(rest, 118)) + '\n"""'
    problems.append("long doc: " + d); return f'"""{d}"""'
changed = 0
targets = {nm for nm, s in sources.items() if s} | set(moved_in)
for nm in targets:
    olds = sources.get(nm, [])
    foreign = [k for k in moved_in.get(nm, []) if k[0] not in olds]
    away = any(k[0] in olds and v != nm for k, v in T.moves.items())
    package = any(mods[o].path.name == "__init__.py" for o in olds)
    if len(olds) == 1 and not foreign and not away and not (needs.get(nm)):
        E = files[olds[0]]; text = E.render(0, len(E.b))
        if nm in T.doc:
            node = mods[olds[0]].tree.body[0]
            s, e = E.span(node)
            text = doc_of(T.doc[nm]) + E.render(e, len(E.b)) if s == 0 else text
    else:
        doc, imps, body = None, [], []
        def take(bl):
            for kind, owner, text in bl:
                if kind == "doc":
                    globals().setdefault("_", None)
                    if not docs: docs.append(text.strip())
                elif kind in ("import", "typing"): imps.append(text.strip("\n"))
                elif owner == nm: body.append(text.strip("\n"))
        docs = []
        for o in olds: take(blocks(o))
        for (m, n) in foreign:
            bl = blocks(m)
            _, stmt_of = info[m]
            for (kind, owner, text), (_, _, _, st) in zip(bl, stmt_of):
                if mods[m].defs[n][1] is st and text.strip("\n") not in body: body.append(text.strip("\n"))
            imps += [t.strip("\n") for k, _, t in bl if k in ("import", "typing")]
        for src, nn in sorted(needs.get(nm, ())): imps.append(f"from {src} import {nn}")
        # imports of what is here now are gone; lines of one import are normalised
        lines, rest, seen = [], [], set()
        for t in imps:
            try: tree = ast.parse(t)
            except SyntaxError: rest.append(t); continue
            comment = [l for l in t.split("\n") if l.lstrip().startswith("#")]
            for st in tree.body:
                if isinstance(st, ast.ImportFrom):
                    for a in st.names:
                        if st.module == nm or f"{st.module}.{a.name}" == nm: continue
                        l = f"from {st.module} import {a.name}" + (f" as {a.asname}" if a.asname else "")
                        if l not in seen: seen.add(l); lines.append(l)
                else:
                    l = ast.unparse(st) if not isinstance(st, ast.If) else "\n".join(x for x in t.split("\n") if not x.startswith("#"))
                    if l not in seen: seen.add(l); lines.append(l)
            for c in comment:
                if "noqa" not in c and len(olds) > 1: problems.append(f"{nm}: comment in imports lost: {c}")
                elif c not in lines: lines.insert(0, c)
        d = doc_of(T.doc[nm]) if nm in T.doc else docs[0] if docs else ('"""."""' if not package else "")
        future = [l for l in lines if l.startswith("from __future__")]
        consts = body
        body = ordered(body)
        text = (d + "\n\n" if d else "") + "\n".join(future + [l for l in lines if l not in future]) + ("\n\n" if lines else "") + "\n\n\n".join(b for b in body) + "\n"
        text = text.lstrip("\n")
    output[nm] = (text, package, olds)

# --- write
removed, written = set(), {}
def depth_fix(text, olds, nm):
    d = nm.count(".") - max((o.count(".") for o in olds), default=nm.count("."))
    if not d: return text
    text = re.sub(r"(Path\(__file__\)(?:\.resolve\(\))?\.parents\[)(\d+)\]", lambda m: f"{m[1]}{int(m[2]) + d}]", text)
    if "__file__" in text: problems.append(f"{nm}: __file__ and another depth ({d})")
    return text
for nm, (text, package, olds) in output.items():
    base = ROOT / nm.replace(".", "/")
    path = base / "__init__.py" if package else base.with_suffix(".py")
    written[path] = (depth_fix(text, olds, nm) if not package else text, olds)
oldpaths = {ROOT / m.path for m in mods.values()}
for path, (text, olds) in written.items():
    if path in oldpaths and path.read_text() == text: continue
    changed += 1
newset = set(written)
# moves of data files beside packages
for d, nd in sorted(ROOMS.items(), key=lambda x: -len(x[0])):
    src = ROOT / d.replace(".", "/")
    if not src.is_dir(): continue
    for p in sorted(src.rglob("*")):
        if p.is_file() and p.suffix != ".py" and "__pycache__" not in p.parts:
            rel = p.relative_to(src)
            if any(ROOMS.get(d + "." + ".".join(rel.parts[:k])) for k in range(1, len(rel.parts))): continue
            q = ROOT / nd.replace(".", "/") / rel
            q.parent.mkdir(parents=True, exist_ok=True); p.rename(q)
for p in oldpaths - newset: p.unlink()
for path, (text, olds) in written.items():
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text: path.write_text(text)
# packages need an __init__
for path in list(newset):
    d = path.parent
    while d != ROOT and d.is_relative_to(ROOT):
        if not (d / "__init__.py").exists() and d.relative_to(ROOT).parts[0] in ("bot", "plugins"):
            nmod = ".".join(d.relative_to(ROOT).parts)
            (d / "__init__.py").write_text(f'"""{T.doc.get(nmod, "TODO " + nmod)}"""\n'); problems.append(f"new package {nmod}")
        d = d.parent
for d in sorted({p.parent for p in oldpaths}, key=lambda p: -len(p.parts)):
    rest = [x for x in d.glob("*") if x.name != "__pycache__"] if d.exists() else [1]
    if not rest: subprocess.run(["rm", "-rf", str(d)])
# --- texts
for pat in ("*.md", "pyproject.toml", "Makefile", "config.toml", "bot/**/*.md", "plugins/**/*.md", "docs/**/*.md", "tests/**/*.toml", "tests/**/*.md"):
    for p in ROOT.glob(pat):
        if ".venv" in p.parts: continue
        old = p.read_text(); new = map_text(old)
        known = {n: list(v)[0] for n, v in renamed.items() if len(v) == 1 and existing[n] == 1}
        if p.suffix == ".md": new = backticks(new, known)
        if new != old: p.write_text(new)
print("changed", changed, "removed", len(oldpaths - newset), "new", len(newset - oldpaths))
for p in problems: print("!", p)
