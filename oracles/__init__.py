"""What the answer is: the indexer's formats, layouts, schedules and arithmetic, in their own numbers."""
