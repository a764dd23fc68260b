"""Training of vision-language models: supervised warm-up and policy RL on rubric rewards.

Nothing heavy is imported here; import `tiny`, `generate`, `sft`, `policy` or `alarm` directly. The two settings below
take effect only before the first import of torch: by default OpenMP threads spin while they wait, and a training step
takes up to nine times as long when another process uses the cores.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
