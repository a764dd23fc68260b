"""Training of vision-language models: supervised warm-up and policy RL on rubric rewards.

Nothing heavy is imported here; take `tiny`, `generate`, `sft`, `policy` or `alarm` by name. The two settings below only
work before torch is first imported: OpenMP's default is to spin while it waits, and training steps take up to nine
times as long when another process wants the cores.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
