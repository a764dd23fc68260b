"""Reference page of the tables that stages write: columns, types and meanings."""

import pyarrow as pa
from schema_tables import cell

from rubricworks.data.schemas import SCHEMA_VERSION, SCHEMAS

_INTRO = f"""# Tables

Each stage writes its tables as Parquet to `RUN/STAGE/TABLE/part-*.parquet` (schema version {SCHEMA_VERSION}). Open a
folder with pandas, DuckDB or `datasets` ([Reading the results](../reading-results.md)).

A column is never null unless it is marked *nullable*. Columns with JSON hold the value as text.
"""


_TABLES = {
    "samples": "Images, or questions, that a run trains and evaluates on, one per row.",
    "instructions": "Conversations about images, for visual instruction tuning.",
    "captions": "Captions of the committee, or of a student, one per sample and captioner.",
    "rubrics": "One rubric per sample.",
    "rollouts": "Responses that the policy sampled while it was trained, with their rewards.",
    "scorecards": "Judges' verdicts on rollouts.",
    "caption_grades": "Precision, recall and linguistic score of rollouts (BalCapRL).",
    "evaluations": "Captions of evaluated models with their scores.",
    "exams": "Questions that a caption must answer (BalCapRL).",
    "caption_scores": "Captions of evaluated models with the scores of BalCapRL's evaluation.",
    "answers": "Answers of evaluated models to questions.",
    "responses": "Responses of evaluated models.",
    "scores": "Scores of responses in long form: one row per sample, model, scorer and part.",
    "dead_letters": "Model calls that gave no usable output after all attempts.",
    "genrm_data": "Responses with the labels that a GenRM is trained on (RLR³, section 4.4).",
    "genrm_outputs": "Outputs of a GenRM on its held-out rows.",
    "audit_candidates": "Abnormal responses that were written for an audit, accepted or rejected.",
    "audit": "Verdicts of a judge on abnormal responses (RLR³, section 5.4).",
    "filtered": "Questions of the offline filter with the rewards of their first responses (RLR³, section 4.5).",
    "rejected": "Entries of a source that are not used.",
    "overlong": "Samples that are left out because the student's context does not hold them.",
    "audited_responses": "Responses that a test of rubrics graded.",
    "without_rubric": "Samples for which no rubric could be written.",
}
_COLUMNS = {
    "advantage": "Advantage in the rollout's group; null if the reward is.",
    "against": "Model that the response was compared with.",
    "annotations": "Value of each criterion that the response gives, as JSON.",
    "answer": "Reference answer.",
    "answered": "Share of the exam's questions that the caption answers.",
    "answers": "Answers from the caption to the exam, as JSON.",
    "any": "At least one response met a criterion.",
    "arm": "Model that answered: pretrained by recaptions, or the baseline.",
    "attack": "Attack that the response contains; null for an ordinary one.",
    "attempts": "Calls that were made.",
    "b_capscore": "B-CapScore (BalCapRL, section 3.1).",
    "candidates": "Candidates that the writer produced.",
    "caption": "Text of the caption.",
    "caption_qa": "CaptionQA score: share of questions answered from the caption only.",
    "captioner": "Name of the captioner in the recipe.",
    "completion_tokens": "Tokens of the call's output.",
    "cost": "Dollars of the call; of the original call for a cached response.",
    "coverage": "Which captions mention what each criterion asks for, as JSON.",
    "criterion": "Criterion that was not judged.",
    "dc_f1": "F1 of DCScore.",
    "dc_precision": "Precision of DCScore.",
    "dc_recall": "Recall of DCScore.",
    "dc_score": "DCScore.",
    "decoding": "`greedy` or `sampled`.",
    "details": "Details of the rejection, as JSON.",
    "endpoint": "Digest of the endpoint's settings.",
    "essential": "At least one response met every essential criterion.",
    "evidence": "Evidence of the score as JSON, in the row of the scorer's first part.",
    "facts": "Statements of the caption and their verdicts, as JSON.",
    "gated": "The length gate set the reward to 0.",
    "graded": "Precision, recall and linguistic verdicts, as JSON (`GradedCaption`).",
    "image": "Bytes of the image; null for a sample without.",
    "image_digest": "SHA-256 of the image.",
    "images": "Bytes of the conversation's images.",
    "initial_reward": "Mean reward of the first responses.",
    "judge": "Judge, with its revision.",
    "judgment": "Comparison with the base model's caption, as JSON.",
    "kept": "The question is trained on.",
    "label": "Verdict of the verifiers, as JSON.",
    "linguistic": "Linguistic score.",
    "loses_credit": "The response lacks a criterion.",
    "message": "Error message.",
    "messages": "Messages of the conversation, as JSON.",
    "mode": "Failure mode that the response was written for.",
    "model": "Name of the model.",
    "multiple_choice": "The question has options.",
    "options": "Options of a multiple-choice question.",
    "oracle_f1": "F1 by the scene world's truth.",
    "oracle_precision": "Precision by the scene world's truth.",
    "oracle_recall": "Recall by the scene world's truth.",
    "output": "Text that the GenRM wrote.",
    "part": "Part of the scorer's result, such as `precision`.",
    "pattern": "Pattern of the attack.",
    "precision": "Share of the caption's statements that are correct.",
    "prompt": "Prompt that the policy is given.",
    "prompt_tokens": "Tokens of the call's prompt.",
    "prompt_version": "Version of the prompt's text.",
    "purpose": "Purpose of the call.",
    "question": "Text of the question.",
    "questions": "Questions of the exam, as JSON.",
    "raw": "Last output of the model.",
    "reason": "Reason in a word or a sentence.",
    "recall": "Share of the exam's questions that the caption answers.",
    "reference_tokens": "Tokens of the reference caption.",
    "references": "Reference captions or answers.",
    "rejected": "Reason why the response is not used; null if it is.",
    "request": "Digest of the request.",
    "response": "Text of the response, or the digest of its image.",
    "response_type": "Media type of an image response; null for a text.",
    "revision": "Revision of the model.",
    "reward": "Reward; null for a response that could not be judged.",
    "rewards": "Rewards of the responses, as JSON.",
    "right": "The answer is correct; null if it could not be judged.",
    "rubric": "Rubric, as JSON.",
    "rubric_reward": "Reward by the sample's rubric.",
    "sample_id": "Id of the sample, from its image and its place in the source.",
    "scorecard": "Verdict on each criterion, as JSON.",
    "scorer": "Scorer.",
    "seed": "Seed of the sampling.",
    "setting": "Prompt setting of the judge.",
    "source": "Place in the source: file, row or address.",
    "split": "`train` or `held_out`.",
    "stage": "Stage that made the call.",
    "step": "Optimizer step.",
    "responses.step": "Optimizer step of the checkpoint; null for a finished model.",
    "scores.step": "Optimizer step of the checkpoint; null for a finished model.",
    "scores.sample_id": "Id of the sample; null for the score of a whole corpus.",
    "task": "Task that the question counts towards.",
    "tokens": "Tokens of the response.",
    "value": "Score; null if the response could not be judged.",
    "version": "Version of the scorer.",
    "win": "1 for a win against the base model's caption, 0.5 for a tie, 0 for a loss.",
    "writer": "Model that wrote it.",
}
"""Meaning by column, or by `table.column` where a table's differs."""


def tables_page() -> str:
    """The page as Markdown."""
    parts = [_INTRO]
    for table, schema in SCHEMAS.items():
        parts += [f"## `{table}`", "", _TABLES[table], "", "| column | type | meaning |", "|---|---|---|"]
        for field in schema:
            meaning = _COLUMNS.get(f"{table}.{field.name}") or _COLUMNS[field.name]
            nullable = ", nullable" if field.nullable else ""
            parts.append(f"| `{field.name}` | {_type(field.type)}{nullable} | {cell(meaning)} |")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _type(kind: pa.DataType) -> str:
    return f"list of {_type(kind.value_type)}" if pa.types.is_list(kind) else str(kind)
