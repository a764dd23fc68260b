"""Policy training by composition: a reward and an algorithm, each one file per type.

`policy:` of a recipe names a reward and an algorithm by their `type` (`policy.policy`). A type's file holds its
settings, how it is built for a training, its calls for `--dry-run`, and a line for reports; so plan, report and
training cannot disagree, and an option exists only where it has an effect. To add a reward, add its file below
`rewards/` and its line in the unions of `policy.policy`.
"""
