"""Components that ask models: captions, rubrics, exams."""

from rubricworks.components.declaration import component

caption_committee = component(
    "caption_committee",
    "Ask every model of the committee for a caption of every training sample.",
    "URI of the captions table.",
)
caption_student = component(
    "caption_student",
    "Caption the training samples with the model that is about to be trained, so that rubrics can aim at its faults.",
    "URI of the captions table of the student.",
    model="URI of the model before training: the student.",
)
synthesize_rubrics = component(
    "synthesize_rubrics",
    "Write one rubric per training sample: what the committee agrees on, turned into weighted yes-or-no criteria.",
    "URI of the rubrics table.",
)
recap = component(
    "recap",
    "Write the reference captions anew with a stronger model; policies are measured against them.",
    "URI of the samples table with the new references.",
)
recaption = component(
    "recaption",
    "Recaption a source of any size, or a table of samples, with one captioner or several.",
    "URI of the captions table.",
    samples="URI of the samples table, where the source is none of its own.",
)
write_exams = component(
    "write_exams",
    "Write multiple-choice questions about each image, which captions of it must be able to answer.",
    "URI of the exams table.",
)
peer_rubrics = component(
    "peer_rubrics",
    "Write RubiCap's rubrics of the training samples, where it is trained as a peer; none unless they are asked for.",
    "URI of the rubrics table.",
    model="URI of the model before training: the student whose faults the rubrics aim at.",
)
write_checklists = component(
    "write_checklists",
    "Write one checklist per question: essential and additional criteria with references, proposed by several models.",
    "URI of the rubrics table.",
)
genrm_data = component(
    "genrm_data",
    "Label responses of the base policy by several teachers: what a generative reward model learns from.",
    "URI of the table of labelled responses.",
    model="URI of the base policy.",
)
write_prompt_rubrics = component(
    "write_prompt_rubrics",
    "Write one rubric per prompt: candidates from several queries, checked, and the most important ones selected.",
    "URI of the rubrics table.",
)
