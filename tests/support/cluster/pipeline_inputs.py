"""Stage → input → the stage that makes it, for each pipeline: what the DAGs are checked against."""

RUBICAP = {
    "prepare": {},
    "warm_up": {"samples": "prepare"},
    "caption_committee": {"samples": "prepare"},
    "caption_student": {"samples": "prepare", "model": "warm_up"},
    "synthesize_rubrics": {
        "samples": "prepare",
        "captions": "caption_committee",
        "student_captions": "caption_student",
    },
    "train_policy": {
        "samples": "prepare",
        "rubrics": "synthesize_rubrics",
        "model": "warm_up",
        "captions": "caption_committee",
    },
    "score": {
        "samples": "prepare",
        "rubrics": "synthesize_rubrics",
        "model": "warm_up",
        "policy": "train_policy",
    },
    "promote": {"scores": "score", "policy": "train_policy", "samples": "prepare"},
    "report": {"promotion": "promote"},
}

TRAINED_ON = {
    "samples": "open_questions",
    "rubrics": "write_checklists",
    "filtered": "offline_filter",
    "model": "warm_up",
}
RLR3 = {
    "prepare_questions": {},
    "open_questions": {"samples": "prepare_questions"},
    "warm_up": {"samples": "open_questions"},
    "write_checklists": {"samples": "open_questions"},
    "offline_filter": {
        "questions": "prepare_questions",
        "samples": "open_questions",
        "rubrics": "write_checklists",
        "model": "warm_up",
    },
    "genrm_data": TRAINED_ON,
    "train_genrm": {"genrm_data": "genrm_data"},
    "audit": {"genrm_data": "genrm_data", "samples": "open_questions", "genrm": "train_genrm"},
    # Both arms read the same: what differs is the reward, which the GenRM gives.
    "train_rlvr": TRAINED_ON,
    "train_rlr3": {**TRAINED_ON, "genrm": "train_genrm"},
    "score": {
        "samples": "open_questions",
        "model": "warm_up",
        "peer": "train_rlvr",
        "policy": "train_rlr3",
    },
    "promote": {
        "scores": "score",
        "policy": "score",
        "samples": "prepare_questions",
        "audit": "audit",
        "genrm": "train_genrm",
    },
    "rlr3_report": {"promotion": "promote", "audit": "audit", "genrm": "train_genrm"},
}

BALCAPRL = {
    "prepare": {},
    "recap": {"samples": "prepare"},
    # The student starts from the captions that came with the images, and exams ask about the images alone: neither is
    # made anew when the references are.
    "warm_up": {"samples": "prepare"},
    "write_exams": {"samples": "prepare"},
    "peer_rubrics": {"samples": "prepare", "model": "warm_up"},
    "train_balcaprl": {"samples": "recap", "model": "warm_up", "rubrics": "peer_rubrics"},
    "score": {
        "samples": "recap",
        "exams": "write_exams",
        "model": "warm_up",
        "policy": "train_balcaprl",
    },
    "promote": {"scores": "score", "policy": "train_balcaprl", "samples": "prepare"},
    "balcaprl_report": {"promotion": "promote"},
}

RUBRICRL = {
    "prepare_prompts": {},
    "write_prompt_rubrics": {"samples": "prepare_prompts"},
    "pretrain_generator": {},
    "train_generator": {
        "samples": "prepare_prompts",
        "rubrics": "write_prompt_rubrics",
        "model": "pretrain_generator",
    },
    "score": {
        "samples": "prepare_prompts",
        "rubrics": "write_prompt_rubrics",
        "model": "pretrain_generator",
        "policy": "train_generator",
    },
    "promote": {"scores": "score", "policy": "train_generator", "samples": "prepare_prompts"},
    "rubricrl_report": {"promotion": "promote"},
}

CAPTIONED = {"samples": "prepare", "captions": "recaption"}
RECAPTION_PRETRAIN = {
    "prepare": {},
    "recaption": {"samples": "prepare"},
    "align_projector": CAPTIONED,
    # Both arms start from the same aligned model and differ in their captions alone.
    "pretrain_vlm": {**CAPTIONED, "model": "align_projector"},
    "tune_vlm": {"samples": "prepare", "model": "pretrain_vlm"},
    "pretrain_baseline": {**CAPTIONED, "model": "align_projector"},
    "tune_baseline": {"samples": "prepare", "model": "pretrain_baseline"},
    "benchmark_questions": {"samples": "prepare"},
    "score": {"samples": "benchmark_questions", "model": "tune_baseline", "policy": "tune_vlm"},
    "recaption_pretrain_report": {"scores": "score"},
}

EVALUATE = {
    "prepare": {},
    "score": {"samples": "prepare"},
    "evaluation_report": {"scores": "score"},
}
GATES = {"train_rlr3": {"audit"}}
"""Stage → stages that it waits for without reading their output: the audit of its judge may end the run."""
