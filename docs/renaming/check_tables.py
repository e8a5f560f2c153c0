import sys, collections, pickle, pathlib, time
sys.path.insert(0, str(__import__("pathlib").Path(__file__).parent))
from tables_lib import *
import graphlib
root = "."
only = set(sys.argv[1:]) 
mods = load(root)
t, errs = read_tables(str(__import__("pathlib").Path(__file__).parent / "tables"))
mine = None
if only:
    tm, e2 = read_tables(str(__import__("pathlib").Path(__file__).parent / "tables"), only); mine = tm
    errs = [e for e in errs if e.split(".tsv")[0] in only]
def is_mine(key): 
    return mine is None or key in mine.where
out = list(errs)
for old in t.module:
    if old not in mods and is_mine(old): out.append(f"unknown module {old} ({t.where[old]})")
for (m, n) in t.names:
    if is_mine((m,n)) and (m not in mods or n not in mods[m].defs): out.append(f"unknown name {m}:{n} ({t.where[m,n]})")
for (m, n) in t.moves:
    if is_mine((m,n,"move")) and (m not in mods or n not in mods[m].defs): out.append(f"unknown name to move {m}:{n}")
# members known
for old, new, w in t.attrs:
    if mine is not None and w.split(".tsv")[0] not in only: continue
    if ":" not in old or "." not in old.split(":")[1]: out.append(f"{w}: attr needs module:Class.name: {old}"); continue
    m, cn = old.split(":"); c, n = cn.split(".",1)
    if m not in mods or c not in mods[m].defs: out.append(f"{w}: unknown class {old}"); continue
    node = mods[m].defs[c][1]
    txt = ast.unparse(node)
    if not re.search(rf"\b{re.escape(n)}\b", txt): out.append(f"{w}: no member {old}")
# new modules
newdefs = collections.defaultdict(dict)
lines = collections.Counter(); sources = collections.defaultdict(set)
classes = collections.defaultdict(list)
for name, m in mods.items():
    for d,(k,node) in m.defs.items():
        nm = new_place(t, name, d); nn = t.names.get((name,d), d)
        sources[nm].add(name)
        lines[nm] += (node.end_lineno - node.lineno + 2)
        prev = newdefs[nm].get(nn)
        if prev and prev[0] != name and (is_mine(name) or is_mine(prev[0]) ):
            if nn not in ("__all__","TYPE_CHECKING"): out.append(f"collision in {nm}: {nn} from {prev[0]} and {name}")
        newdefs[nm][nn] = (name, d, k)
        if k == "class" and not name.startswith("tests."): classes[nn].append((nm, name, d))
    if not m.defs: sources[new_place(t,name)].add(name)
for nm, olds in sources.items():
    if len(olds) < 2: continue
    bound = {}
    for o in olds:
        if o not in mods: continue
        for b,(src,attr) in mods[o].binds.items():
            if src and src.startswith("__future__"): continue
            if attr: tgt = canonical(mods, src, attr)
            else: tgt = (src, None)
            tgt2 = (new_place(t,*tgt) if tgt[1] else t.module.get(tgt[0],tgt[0]), t.names.get(tgt, tgt[1]) if tgt[1] else None)
            if b in bound and bound[b] != tgt2 and tgt2[0] != nm and (is_mine(o)):
                out.append(f"import collision in {nm}: {b} is {bound[b]} and {tgt2}")
            bound[b] = tgt2
            b2 = t.names.get(tgt, b) if tgt[1] == b else b
            d = newdefs[nm].get(b2)
            if d and tgt2[0] != nm and is_mine(o): out.append(f"collision in {nm}: import {b2} of {tgt2} (in {o}) with definition from {d[0]}")
            elif d and tgt2[0] == nm and tgt2[1] and tgt2[1] != b2 and is_mine(o): out.append(f"collision in {nm}: {b2}")
one = []
for c, places in classes.items():
    for nm, old, d in places:
        if not is_mine(old): 
            continue
        if not c.startswith("_") and len(words(c)) < 2 and c not in CORE: one.append(f"one word: {old}:{d} -> {c}")
    if not c.startswith("_") and len(places) > 1 and any(is_mine(o) for _,o,_ in places):
        out.append(f"class {c} defined {len(places)} times: " + ", ".join(f"{o}:{d}" for _,o,d in places))
    elif not c.startswith("_") and c in CORE and len(places)==1: pass
# arrows
rank = {r:i for i,f in enumerate(FLOORS) for r in f}
arrows = collections.defaultdict(set); graph = collections.defaultdict(set)
for name, m in mods.items():
    if name.startswith("tests"): continue
    here = t.module.get(name, name)
    # moved names: approximate, importing module is the file
    for src, attr, line in m.imports:
        if not src.startswith(("bot","plugins")): continue
        if attr: tgt = canonical(mods, src, attr)
        else: tgt = (src, None)
        there = new_place(t, *tgt) if tgt[1] else t.module.get(tgt[0], tgt[0])
        if there != here: graph[here].add(there)
        a, b = room(here), room(there)
        if a != b: arrows[a,b].add(f"{name}:{line}->{src}.{attr}")
up = []
for (a,b), w in sorted(arrows.items()):
    if a in rank and b in rank and rank[b] >= rank[a]:
        ws = [x for x in w if is_mine(x.split(":")[0]) or is_mine(x.split("->")[1].rsplit(".",1)[0])]
        if ws: up.append(f"upward {a} -> {b}: {', '.join(sorted(ws)[:4])}{' ...' if len(ws)>4 else ''}")
for m in sorted(m for m in mods if m.startswith("bot.") and m.count(".")==1 and m not in t.module and mods[m].path.name != "__init__.py" and m!="bot.api"):
    if mine is None: out.append(f"loose module stays: {m}")
try: graphlib.TopologicalSorter(graph).prepare(); 
except graphlib.CycleError as e:
    if mine is None or any(t.module.get(x) in e.args[1] or x in e.args[1] for x in mine.module): out.append("module cycle: " + " -> ".join(e.args[1]))
for x in out: print(x)
print(f"-- one-word classes: {len(one)}"); [print("  ", x) for x in one[:400]]
print(f"-- upward arrows: {len(up)}"); [print("  ", x) for x in up]
print("-- files per new room:")
cnt = collections.Counter(); big=[]
for nm in set(sources)|{t.module.get(n,n) for n in mods}:
    if not nm.startswith("tests"): cnt[".".join(nm.split(".")[:2])] += 1
    if lines[nm] > 480 and len(sources[nm])>1: big.append(f"{nm} ~{lines[nm]}")
for k,v in sorted(cnt.items()): print(f"   {k} {v}", end=";")
print(); print("-- merged and large:", big)
print("-- arrows between bot rooms:", len([1 for a,b in arrows if a in rank and b in rank]))
