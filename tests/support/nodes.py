"""A Ray cluster of two nodes on this machine, in a process of its own.

It prints its address. A line on its standard input takes the second node away, whose
processes get SIGKILL; the end of it ends the cluster.
"""

import importlib
import sys
from typing import Any

utils: Any = importlib.import_module("ray.cluster_utils")  # types look without Ray, too
cluster = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
second = cluster.add_node(num_cpus=1)
print(cluster.address, flush=True)
if sys.stdin.readline():
    cluster.remove_node(second, allow_graceful=False)
    print("removed", flush=True)
sys.stdin.read()
cluster.shutdown()
