"""Longtail: when not to trust a language model. `definitions` imports `defs`, which imports `core`, never the reverse."""

import os

# Without this, the threads of torch and faiss wait by spinning: on a busy machine that takes ten times the processor
# seconds. Their libraries read it when they are loaded, so it is set before anything else.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
