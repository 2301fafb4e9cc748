import sys,time,numpy as np
from pathlib import Path
from widemargin.losses.risks import Cvar
from widemargin.losses.surrogates import SURROGATES
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.linalg.cholesky import factor, solve as sf
from widemargin.datasets import load_a9a
A=load_a9a(Path('/work/shared/data')); X=A.X if hasattr(A,'X') else A[0]
y=A.y if hasattr(A,'y') else A[1]
n=X.shape[0]; y=np.where(np.asarray(y)>0,1.,-1.); rows=RowBlocks([(X,None)]); d=X.shape[1]; p=np.full(n,1/n)
def run(tail,loss,lam,kind='barrier',sig=0.15,common=True,verbose=True):
    L=SURROGATES[loss]; w=np.zeros(d+1); f=np.zeros(n); u=np.full(n,tail); 
    best=np.inf; low=-np.inf; t0=time.perf_counter(); mu=None
    for it in range(100):
        l,s,b=L.smoothed(y*f,0.)
        # theta at current: quantile
        o=np.argsort(-l); th0=l[o[np.searchsorted(np.cumsum(p[o]),tail)]]
        t=l-th0; C=float((p/tail)@(np.maximum(t,0)-u*t))
        q=p*u/tail; q/=q.sum()
        P=.5*lam*w[:d]@w[:d]+Cvar(tail).value(l,p); best=min(best,P)
        sg=s.copy(); pull=[(q*sg)[y==1].sum(),(q*sg)[y==-1].sum()]; h=1 if pull[0]>pull[1] else -1; sg[y==h]*=min(pull)/max(pull)
        v=rows.tdot(q*sg*y); D=q@L.line(sg)-v@v/(2*lam); low=max(low,D)
        gap=(best-low)/best
        if verbose: print(it,f"P {P:.8f} D {D:.8f} gap {gap:.1e} mu {0 if mu is None else mu:.1e} C {C:.1e} th {th0:.4f} a {0 if mu is None else al:.2f}")
        if gap<1e-6: break
        full=max(C,1e-300)*tail/2
        if mu is None: mu=.1*P*tail
        else: mu=mu*(sig if al>.8 else .4 if al>.4 else 1.)
        mu=max(mu,1e-9*P*tail)
        if kind=='barrier': ps=mu*(1/(1-u)-1/u); k=1/(mu*(1/u**2+1/(1-u)**2))
        else: ps=mu*np.log(u/(1-u)); k=u*(1-u)/mu
        dg=p/tail*k
        def lin(l): # theta, u_target
            th=(p/tail@(u+k*(l-ps))-1)/dg.sum(); return th,u+k*(l-th-ps)
        th,ue=lin(l); qe=p/tail*ue
        g=np.append(rows.tdot(-qe*s*y),-(qe*s*y).sum()); g[:d]+=lam*w[:d]
        cur=q*b+dg*s**2; col=dg*s*y/np.sqrt(dg.sum())
        G,S=rows.moments(cur); H=np.zeros((d+1,d+1),order='F'); H[:d,:d]=G; H[d,:d]=S; H[d,d]=cur.sum()*(1+1e-12); H[range(d),range(d)]+=lam
        c=np.append(rows.tdot(col),col.sum()); H-=np.outer(c,c)
        st=sf(factor(H),-g); df=rows.dot(st[:d])+st[d]
        # linear prediction of losses for the dual step, limits
        ln=l-s*y*df; th,ue=lin(ln); du=ue-u
        al=1.0
        neg=du<0; 
        if neg.any(): al=min(al,.95*np.min(-u[neg]/du[neg]))
        pos=du>0
        if pos.any(): al=min(al,.95*np.min((1-u[pos])/du[pos]))
        u=u+al*du; a=al if common else 1.
        w=w+a*st; f=f+a*df
    print(kind,loss,tail,'its',it,'gap',f'{gap:.1e}',f'{time.perf_counter()-t0:.2f}s')
for kind in ('barrier',):
  for tail in (.5,.1,.9,.2,.3,.02):
    run(tail,'logistic',1/n,kind,verbose=False)
    run(tail,'squared-hinge',1/n,kind,verbose=False)
run(.5,'logistic',1/n)
