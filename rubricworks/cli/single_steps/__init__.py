"""Single steps without a recipe: captions, rubrics, grades and scores of one's own files."""
