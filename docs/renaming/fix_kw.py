"""dataclass fields given by name through helpers: renames KW= and "KW": in tests that fail so.  fix_kw.py LOG"""
import re, sys, pathlib
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from tables_lib import *
T,_=read_tables(str(pathlib.Path(__file__).parent / "tables"))
new={}
for old,n,w in T.attrs:
    m,cn=old.split(":"); c,a=cn.split(".",1); new[T.names.get((m,c),c),a]=n
log=open(sys.argv[1]).read(); todo=set()
for block in re.split(r"\n_{5,}.*_{5,}\n", log):
    for m in re.finditer(r"TypeError: (?:\w+\.)*?(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", block):
        for f in set(re.findall(r"(tests/[\w/]+\.py)", block)): todo.add((f,m[1],m[2]))
for f,c,a in sorted(todo):
    n=new.get((c,a))
    if not n: print("no row",c,a); continue
    p=pathlib.Path(f)
    if not p.exists(): continue
    s=p.read_text(); o=s
    s=re.sub(rf'(?<=[(,\s{{]){a}=(?!=)',n+'=',s); s=re.sub(rf'(["\']){a}\1(?=:)',f'"{n}"',s)
    if s!=o: p.write_text(s); print(f,a,n)
