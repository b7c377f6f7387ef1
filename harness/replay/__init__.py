"""Records a decode step once and runs it again: what a stream capture holds, without a stream."""
