"""keyword arguments of dataclasses.replace and calls that the language server did not see, from mypy's messages"""
import re, sys, pathlib, subprocess
sys.path.insert(0, str(__import__("pathlib").Path(__file__).parent))
from tables_lib import *
T,_=read_tables(str(__import__("pathlib").Path(__file__).parent / "tables"))
newname={}
for old,new,w in T.attrs:
    m,cn=old.split(":"); c,n=cn.split(".",1); newname[T.names.get((m,c),c), n]=new; newname.setdefault(("",n),set()).add(new) if isinstance(newname.get(("",n)),set) or ("",n) not in newname else None
log=open("/tmp/mypy.log").read()
for m in re.finditer(r'^(\S+?):(\d+): error: Unexpected keyword argument "(\w+)" for "(\w+)"(?: of "(\w+)")?', log, re.M):
    path,line,kw,fn,cls=m[1],int(m[2]),m[3],m[4],m[5] or m[4]
    new=newname.get((cls,kw))
    if not new: print("no row for",m[0]); continue
    L=pathlib.Path(path).read_text().split("\n")
    for k in range(line-1,min(line+12,len(L))):
        n2=re.sub(rf'(?<![\w.]){kw}=',f'{new}=',L[k],count=1)
        if n2!=L[k]: L[k]=n2; break
    else: print("not found",m[0]); continue
    pathlib.Path(path).write_text("\n".join(L))
