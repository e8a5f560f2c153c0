"""``python -m tests.simulation.whole``: simulations by seed."""

import argparse, tempfile, time, logging, structlog

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
from pathlib import Path
from tests.simulation.whole.sim import Plan, run

p = argparse.ArgumentParser()
p.add_argument("--seed", type=int, default=1)
p.add_argument("--seeds", type=int, default=1)
p.add_argument("--days", type=float, default=1.0)
p.add_argument("--kills", type=int, default=6)
p.add_argument("--calm", action="store_true")
p.add_argument("--keep")
a = p.parse_args()
for seed in range(a.seed, a.seed + a.seeds):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        t = time.time()
        root = Path(a.keep or folder)
        report = run(Plan(seed=seed, days=a.days, kills=a.kills, faulty=not a.calm), root)
        print(report, f"{time.time() - t:.1f} s", flush=True)
