"""What a run will do, as data: dates, inputs, stages, and how far windows reach."""
