"""Random small streams, on which the replay is held against the real engines.

Each engine has a module of its own, with two functions: `draw`, which makes a case, and
`difference`, which says where the replay and the engine differ. The tests of the recordings
compare by the latter, too.
"""
