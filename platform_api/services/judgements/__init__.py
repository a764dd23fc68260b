"""People's judgement beside the judges': labels, blind choices, and what each judge was asked and said."""
