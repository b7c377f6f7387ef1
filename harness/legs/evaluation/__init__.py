"""The one door to lm-eval: prompts, filters and scores are its own; requests are asked and kept here."""
