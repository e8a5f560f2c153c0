"""measure.py ROOT [-v]: names, rooms, files, single importers."""
import ast,sys,pathlib,collections,re
root=pathlib.Path(sys.argv[1]); V="-v" in sys.argv
def words(n): return re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+",n.strip("_"))
mods={}
for top in("bot","plugins"):
    for p in sorted((root/top).rglob("*.py")):
        parts=list(p.relative_to(root).with_suffix("").parts)
        if parts[-1]=="__init__": parts=parts[:-1]
        mods[".".join(parts)]=(p,ast.parse(p.read_text()))
cl=collections.defaultdict(list); one=set()
for m,(p,t) in mods.items():
    for n in t.body:
        if isinstance(n,ast.ClassDef) and not n.name.startswith("_"):
            cl[n.name].append(m)
            if len(words(n.name))==1: one.add(n.name)
pub=sum(map(len,cl.values())); shared={k:v for k,v in cl.items() if len(v)>1}
print("public classes",pub,"one word",len(one),sorted(one)); print("shared",len(shared),shared)
print("loose",[m for m,(p,t) in mods.items() if m.count(".")==1 and m.startswith("bot.") and p.name!="__init__.py"])
def room(m):
    return ".".join(m.split(".")[:2])
imp=collections.defaultdict(set); arrows=set()
def resolve(mod,name):
    return f"{mod}.{name}" if f"{mod}.{name}" in mods else mod
for m,(p,t) in mods.items():
    for n in ast.walk(t):
        tg=[]
        if isinstance(n,ast.ImportFrom) and n.module: tg=[resolve(n.module,a.name) for a in n.names]
        elif isinstance(n,ast.Import): tg=[a.name for a in n.names]
        for x in tg:
            if x in mods and x!=m: imp[x].add(m)
            if x.startswith("bot.") and m.startswith("bot.") and room(x)!=room(m): arrows.add((room(m),room(x)))
eng=[m for m in mods if m.startswith("bot.") and not m.startswith(("bot.testing","bot.simulator"))]
ef=[m for m in eng if mods[m][0].name!="__init__.py"]
print("engine files",len(ef),"incl init",len(eng)); rooms=collections.Counter(room(m) for m in ef); print(rooms)
er={a for a in arrows if not any(x.startswith(("bot.testing","bot.simulator")) for x in a)}
print("rooms",len(rooms),"arrows",len(er))
def pkg(m): return m.rsplit(".",1)[0]
single=[(m,next(iter(imp[m]))) for m in mods if mods[m][0].name!="__init__.py" and len(imp[m])==1 and pkg(next(iter(imp[m])))==pkg(m)]
print("single importer",len(single), "in engine",sum(m in ef for m,_ in single))
if V:
    for m,i in single: print("  ",m,len(mods[m][0].read_text().split("\n")),"<-",i,len(mods[i][0].read_text().split("\n")))
def loc(pre): return sum(len(p.read_text().split("\n")) for m,(p,t) in mods.items() if m.startswith(pre))
print("lines bot",loc("bot"),"plugins",loc("plugins"),"engine",sum(len(mods[m][0].read_text().split("\n")) for m in eng))
print("README",len((root/"README.md").read_text().split("\n")))
