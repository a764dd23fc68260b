"""Pages that people read, and the figures on them: reports of runs, pages of stages, leaderboards, audits.

A **section** is a function of a run (`run_folder.RunFolder`) that returns its **block**, or None if the run has nothing
for it. A block has a heading, **parts** (text, tiles, charts, whiskers, tables, cards), and the figures that it adds to
`summary.json` or to Kubeflow's metrics. `templates/parts.html` draws every part, so a section is Python only.

    section                                     file            where it is shown
    hero (headline, promotion, tiles)           headline        reports
    results, criteria, results by task          results         reports; page of `score`
    examples                                    examples        reports; page of `score`
    training, losses, rollout_groups            training        reports; pages of trainings
    samples, captions, rubrics, exams, files    data            reports; pages of data stages
    costs, failures, what_ran, next_steps       record          every report
    audited_rubrics, judge_errors               stages.release.judge_trust

A method lists the sections of its **report** in `methods/<method>/sections.py` (`page.Report`), which holds only what
is that paper's. The stage `stages.release.report` writes it. The stage table names the sections of each stage's page in
the Kubeflow UI (`stage_page`): the same functions, so nothing is rendered twice. To add a section, write the function
where its data is read, and name it in a report or in the stage table.
"""
