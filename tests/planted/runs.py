"""Faults in cells, workers and records: what is kept, and what goes on."""

from planted import Fault

FILES = (
    "analysis/cells.py",
    "analysis/compute.py",
    "analysis/devices.py",
    "analysis/messages.py",
    "analysis/process.py",
    "analysis/provenance.py",
    "analysis/store.py",
    "analysis/supervisor.py",
    "analysis/worker.py",
)
FAULTS: list[Fault] = []
