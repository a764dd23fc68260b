"""A rubric set as verl trains on it: its rows, and the options of verl that grade by them.

export JUDGE_URL=http://localhost:8000/v1 JUDGE_MODEL=Qwen/Qwen2.5-7B-Instruct
python examples/verl_rubrics.py RUBRICS train.parquet > options.txt
xargs -a options.txt python -m verl.trainer.main_ppo actor_rollout_ref.model.path=MODEL …
"""

import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.data.rubric_sets import read_rubric_set

MANAGER = "reward.reward_manager.source=importlib reward.reward_manager.name=RubricRewardManager"
MODULE = "reward.reward_manager.module.path=pkg://rubricworks.adapters.verl"
if __name__ == "__main__":
    rubrics, out = sys.argv[1:]
    rows = [
        {
            "data_source": "rubrics",
            "prompt": [{"role": "user", "content": entry.prompt}],
            "reward_model": {"style": "rubric", "ground_truth": entry.rubric.model_dump_json()},
            "extra_info": {"sample_id": entry.sample_id, "question": entry.prompt, "answer": entry.reference},
        }
        for entry in read_rubric_set(rubrics, note=str)
    ]
    pq.write_table(pa.Table.from_pylist(rows), out)
    judge = f"{{url: '{os.environ['JUDGE_URL']}', model: '{os.environ['JUDGE_MODEL']}'}}"
    options = f"+reward.reward_kwargs.rubricworks={{judges: [{judge}], subject: answer}}"
    print(f'data.train_files={out} {MANAGER} {MODULE} "{options}"')
