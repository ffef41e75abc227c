"""Why the windows of a key differ."""
