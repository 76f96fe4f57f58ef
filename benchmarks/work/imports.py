"""The cost of a process that imports a package: time, memory and modules, with a warm cache."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence

from ..figures import percentile

__all__ = ["imported"]

REPORT = """
import json, resource, sys
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([most / 1024 if sys.platform != "darwin" else most / 2**20, len(sys.modules)]))
"""


def imported(command: Sequence[str], statement: str, repeats: int) -> dict[str, float]:
    """Run *statement* in fresh interpreters, started by *command*; times are of whole processes, from start to end.

    Raises:
        subprocess.CalledProcessError: the statement failed.
    """
    taken: list[float] = []
    subprocess.run([*command, "-c", statement], check=True)  # compiles the modules
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run([*command, "-c", statement], check=True)
        taken.append(time.perf_counter() - began)
    reported = subprocess.run([*command, "-c", statement + REPORT], check=True, stdout=subprocess.PIPE)
    memory, modules = json.loads(reported.stdout)
    return {"p50_ms": percentile(taken, 0.5) * 1e3, "rss_mb": memory, "modules": modules}
