"""What a stream wrote, brought beside what the batch computed."""
