import sys,time,numpy as np
from pathlib import Path
from widemargin.losses.risks import RISKS, make_risk
from widemargin.losses.surrogates import SURROGATES
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.smooth.risk_newton import RiskProblem, solve
from widemargin.solvers.base import Budget
from widemargin.datasets import load_a9a
A=load_a9a(Path('/work/shared/data')); X=A.X if hasattr(A,'X') else A[0]
y=A.y if hasattr(A,'y') else A[1]
n=X.shape[0]; y=np.where(np.asarray(y)>0,1.,-1.); rows=RowBlocks([(X,None)])
names=sys.argv[1:] or list(RISKS)
for loss in SURROGATES:
  for name in names:
    risk,radius=make_risk(name)
    P=RiskProblem(rows,y,np.full(n,1/n),1/n,radius,risk,SURROGATES[loss],True)
    if name=='cvar' and loss=='logistic': solve(P,tol=1e-6,start=None,budget=Budget(),max_iter=2)
    t=time.perf_counter(); r=solve(P,tol=1e-6,start=None,budget=Budget(),max_iter=200)
    f=P.scores(r.point)
    print(f"{loss:14s}{name:12s}{time.perf_counter()-t:6.2f}s it {r.n_iter:3d} value {r.value:.8f} gap {r.gap:.1e} {r.status} err {(np.sign(f)!=y).mean():.4f}",flush=True)
