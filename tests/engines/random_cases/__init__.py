"""Random small streams, on which the replay is compared with the real engines.

Each engine has a module with two functions: `draw`, which makes a case, and `difference`, which
says where the replay and the engine differ. The tests of the recordings use the latter, too.
"""
