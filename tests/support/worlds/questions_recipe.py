"""A recipe of the RLR³ pipeline for one's own questions and endpoints, every optional one named."""

URL = "http://127.0.0.1:9/v1"
RECIPE = f"""\
name: mine
pipeline: rlr3
data:
  source: questions.parquet
  held_out: 4
warm_up:
  student: some-vlm-2B
checklists:
  teachers:
    - {{url: "{URL}", model: teacher-1}}
    - {{url: "{URL}", model: teacher-2}}
  merger: {{url: "{URL}", model: merger}}
  examiner: {{url: "{URL}", model: examiner}}
filter:
  judge: &judge {{url: "{URL}", model: judge}}
genrm_data:
  teachers:
    - {{url: "{URL}", model: label-1}}
    - {{url: "{URL}", model: label-2}}
  test: 50
genrm:
  student: some-lm-1B
  sft: {{}}
  rlvr: {{}}
audit:
  judge: *judge
  generator: {{url: "{URL}", model: generator}}
  red_team: {{url: "{URL}", model: red}}
  quality_judges:
    - {{url: "{URL}", model: quality-1}}
    - {{url: "{URL}", model: quality-2}}
  per_category: 10
policy:
  reward:
    type: checklist
    judge: {{type: panel, of: [*judge, {{url: "{URL}", model: second}}], combine: median}}
  algorithm:
    type: grpo
    loss: group_token_mean
    steps: 20
    milestone_every: 10
evaluation:
  scorers:
    answers: {{judge: {{url: "{URL}", model: answers}}}}
"""
